/**
 * The rules for RestoreWindows that API servers from Kubernetes 1.25 on enforce even if no replica answers. The webhook checks the same
 * and more (`restore/window-admission`). Not part of the CRD: older API servers reject a CRD with rules.
 */
import { ACCOUNTS_OF, EVERYBODY, RESERVED_GROUP_PREFIXES } from './principals.ts';

/** In CEL (`x-kubernetes-validations`). */
export interface Rule {
  readonly rule: string;
  readonly message: string;
}

const unchanged = (field: string): Rule => ({
  rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
  message: `${field} cannot be changed once the window is there: create a new one`,
});

/** The rules for `spec`. */
export const RESTORE_WINDOW_RULES: readonly Rule[] = [
  ...[
    'source',
    'principals',
    'match',
    'namespaceMapping',
    'overrides',
    'closeWithSource',
    'quiesce',
    'reason',
  ].map(unchanged),
  {
    rule: '!has(oldSelf.close) || !oldSelf.close || (has(self.close) && self.close)',
    message: 'a closed window stays closed: create a new one',
  },
  {
    rule: 'self.expiresAt <= oldSelf.expiresAt',
    message: 'expiresAt can only be moved to an earlier time: create a new window',
  },
  {
    rule:
      '!has(oldSelf.sweep) || !has(oldSelf.sweep.approved) || !oldSelf.sweep.approved || ' +
      '(has(self.sweep) && has(self.sweep.approved) && self.sweep.approved)',
    message: 'an approval of links cannot be taken back',
  },
  {
    rule:
      'self.principals.all(p, has(p.user) != has(p.group) && ' +
      `!((has(p.user) ? p.user : p.group) in [${EVERYBODY.map((name) => `'${name}'`).join(', ')}]) && ` +
      `!(has(p.group) && !p.group.startsWith('${ACCOUNTS_OF}') && ` +
      `(${RESERVED_GROUP_PREFIXES.map((prefix) => `p.group.startsWith('${prefix}')`).join(' || ')})))`,
    message: 'each of principals has either a user or a group, and names one restorer',
  },
];
