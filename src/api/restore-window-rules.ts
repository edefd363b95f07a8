/**
 * The rules for RestoreWindows that the API server enforces even if no replica answers. The webhook checks the same
 * and more (`restore/window-admission`).
 */
import { ACCOUNTS_OF, EVERYBODY, RESERVED_GROUP_PREFIXES } from './principals.ts';
import type { ValidationRule } from './schema.ts';

const unchanged = (field: string): ValidationRule => ({
  rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
  fieldPath: `.${field}`,
  message: 'it cannot be changed once the window is there: create a new one',
});

/** The rules for `spec`. */
export const RESTORE_WINDOW_RULES: readonly ValidationRule[] = [
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
    fieldPath: '.close',
    message: 'a closed window stays closed: create a new one',
  },
  {
    rule: 'self.expiresAt <= oldSelf.expiresAt',
    fieldPath: '.expiresAt',
    message: 'it can only be moved to an earlier time: create a new window',
  },
  {
    rule:
      '!has(oldSelf.sweep) || !has(oldSelf.sweep.approved) || !oldSelf.sweep.approved || ' +
      '(has(self.sweep) && has(self.sweep.approved) && self.sweep.approved)',
    fieldPath: '.sweep.approved',
    message: 'an approval of links cannot be taken back',
  },
  {
    rule:
      'self.principals.all(p, has(p.user) != has(p.group) && ' +
      `!((has(p.user) ? p.user : p.group) in [${EVERYBODY.map((name) => `'${name}'`).join(', ')}]) && ` +
      `!(has(p.group) && !p.group.startsWith('${ACCOUNTS_OF}') && ` +
      `(${RESERVED_GROUP_PREFIXES.map((prefix) => `p.group.startsWith('${prefix}')`).join(' || ')})))`,
    fieldPath: '.principals',
    message:
      'each has either a user or a group, and names one restorer: name the user or the service accounts that restore',
  },
];
