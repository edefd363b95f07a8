import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import { relinkItem, violation } from './restore-findings.ts';
import * as t from './schema.ts';
import { principal, ACCOUNTS_OF, EVERYBODY, RESERVED_GROUP_PREFIXES } from './principals.ts';
import { quiesce } from './quiesce.ts';
import { restoreGuard } from './restore-guard.ts';

const unchanged = (field: string): t.ValidationRule => ({
  rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
  fieldPath: `.${field}`,
  message: 'it cannot be changed once the window is there: create a new one',
});

/** The rules for `spec` that the API server enforces even if no replica answers. `restore/window-admission` checks more. */
const RESTORE_WINDOW_RULES: readonly t.ValidationRule[] = [
  ...[
    'source',
    'principals',
    'match',
    'namespaceMapping',
    'overrides',
    'closeWithSource',
    'quiesce',
    'guard',
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
    message: 'an approval cannot be undone',
  },
  {
    rule:
      'self.principals.all(p, has(p.user) != has(p.group) && ' +
      `!((has(p.user) ? p.user : p.group) in [${EVERYBODY.map((name) => `'${name}'`).join(', ')}]) && ` +
      `!(has(p.group) && !p.group.startsWith('${ACCOUNTS_OF}') && ` +
      `(${RESERVED_GROUP_PREFIXES.map((prefix) => `p.group.startsWith('${prefix}')`).join(' || ')})))`,
    fieldPath: '.principals',
    message:
      'each must have either a user or a group that identifies one restorer: use the user or the service accounts that restore',
  },
];

export type { Violation } from './restore-findings.ts';

const source = t.object('The origin of the window. Absent: a user opened it.', {
  'type?': t.oneOf(
    'What opened it: a user; a RestoreDetector; Gatehouse itself after a rollback of etcd, or after an absence. The last ' +
      'two defer nothing and only start a sweep.',
    ['Manual', 'Detector', 'Rollback', 'Startup'],
    { default: 'Manual' },
  ),
  'detector?': t.string('The RestoreDetector.', { minLength: 1 }),
  'ref?': t.object('The object of the backup tool, e.g. a Restore of Velero.', {
    apiVersion: t.string('Group and version.'),
    kind: t.string('Kind.'),
    'resource?': t.string('Its plural.'),
    'namespace?': t.string('Absent for cluster-scoped objects.'),
    name: t.string('Name.'),
    uid: t.string('The uid of the object.'),
    'createdAt?': t.string('When it was created (RFC 3339). This restore did not write older objects.'),
  }),
});

const match = t.object('Requests whose checks may be deferred.', {
  'operations?': t.array(
    'Operations whose checks may be deferred.',
    t.oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE']),
    { default: ['CREATE', 'UPDATE'], maxItems: 3 },
  ),
  'resources?': t.array(
    'Kinds. Default: all kinds that policies govern.',
    t.object('A kind.', {
      apiGroup: t.string('The API group, or `*`; empty for the core group.'),
      resource: t.string('The plural, or `*`.', { minLength: 1 }),
    }),
    { maxItems: 64 },
  ),
  'namespaces?': t.object('Namespaces. Default: all, and cluster-scoped objects.', {
    'include?': t.array(
      'Only these namespaces, and no cluster-scoped objects.',
      t.string('A namespace.', { minLength: 1 }),
      { maxItems: 256 },
    ),
    'exclude?': t.array('Not these.', t.string('A namespace.', { minLength: 1 }), { maxItems: 256 }),
  }),
});

const sweep = t.object('The sweep after the restore.', {
  'relinkOwners?': t.oneOf(
    "Whether lost owner references are linked, only listed, or ignored. In YAML, quote 'Off': kubectl reads it as false.",
    ['Link', 'Report', 'Off'],
    { default: 'Link' },
  ),
  'requireApprovalToLink?': t.boolean(
    'Whether a user must approve the links first with `gatehouse restore approve`.',
    { default: false },
  ),
  'approved?': t.boolean('Approves the links. Cannot be undone.', { default: false }),
});

const restoreWindowSpec = t.object(
  'The restore. Only `close`, `sweep.approved` and an earlier `expiresAt` can be changed later.',
  {
    'source?': source,
    principals: t.array(
      'The restorers. Only their requests are deferred; all checks apply to other users. Empty for Rollback and Startup.',
      principal,
      { maxItems: 32 },
    ),
    'match?': match,
    'namespaceMapping?': t.textMap(
      'Maps namespaces of the backup to the namespaces into which they are restored.',
      {
        maxProperties: 256,
      },
    ),
    'overrides?': t.object('Checks that are not deferred even if their policies would defer them.', {
      'references?': t.oneOf('Enforce: references are checked even while the window is open.', ['Enforce']),
      'unique?': t.oneOf('Enforce: unique values are checked even while the window is open.', ['Enforce']),
    }),
    expiresAt: t.string('When the window expires, at most 24 h after it opened (RFC 3339).', {
      format: 'date-time',
    }),
    'closeWithSource?': t.boolean('Whether the window closes when its source completes.', {
      default: true,
    }),
    'close?': t.boolean('Closes the window now. Cannot be undone: open a new one.', { default: false }),
    'sweep?': sweep,
    'quiesce?': quiesce,
    'guard?': restoreGuard,
    'reason?': t.string('Why the window was opened, for readers of the report.', { maxLength: 1024 }),
  },
  { 'x-kubernetes-validations': RESTORE_WINDOW_RULES },
);

const total = (description: string) => t.integer(description, { format: 'int64', minimum: 0 });

const lastSweep = t.object('The last complete sweep.', {
  startedAt: t.string('Start.', { format: 'date-time' }),
  finishedAt: t.string('End.', { format: 'date-time' }),
  objectsScanned: t.integer('Number of objects read.', { format: 'int64' }),
  interim: t.boolean('True if admitted writes could still be stored after this sweep.'),
});

const currentSweep = t.object('The sweep in progress, if it takes long. Updated every few seconds.', {
  startedAt: t.string('Start.', { format: 'date-time' }),
  objectsScanned: total('Number of objects read so far.'),
  'objectsTotal?': total(
    'Approximate number of objects to read; absent if the API server does not report it.',
  ),
  'phase?': t.oneOf(
    'Reading all governed objects, or Confirming: reading again what seems to violate a policy.',
    ['Reading', 'Confirming'],
  ),
  resource: t.string('The resource being read, e.g. `servers.infra.example.com`.'),
});

const relink = t.object('Owner references linked after the restore.', {
  found: total('Recorded owner references that the restore lost.'),
  linked: total('Number that sweeps have linked.'),
  skipped: total('Number that sweeps have skipped; items has the reasons.'),
  failed: total('Number that could not be written.'),
  'items?': t.array('The first 50 owner references that were not linked.', relinkItem, { maxItems: 50 }),
});

const status = t.object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'phase?': t.oneOf(
      'The phase of the restore: Open, Settling (closed; admitted writes may still be stored), then the result. Refused: ' +
        'the window never opened.',
      ['Open', 'Settling', 'Completed', 'CompletedWithViolations', 'Refused'],
    ),
    'openedAt?': t.string('When Gatehouse first saw the window.', { format: 'date-time' }),
    'closedAt?': t.string('When the window closed.', { format: 'date-time' }),
    'closeReason?': t.oneOf('Why the window closed.', [
      'Manual',
      'Expired',
      'SourceInactive',
      'SourceDeleted',
    ]),
    'sourcePhase?': t.string('The last phase of the source.'),
    'currentSweep?': currentSweep,
    'lastSweep?': lastSweep,
    'violations?': t.object('Violations that still exist.', {
      'total?': total('Number of violations; absent if none was found and a kind could not be read.'),
      'byPolicy?': t.countMap('Number of violations by policy.'),
      items: t.array('The first 50; RestoreReports list the rest.', violation, { maxItems: 50 }),
    }),
    'relink?': relink,
    'conditions?': conditionsSchema(
      '`Ready` (open, or over without a violation), `Reconciling` (settling), `Stalled` (refused, or violations are left), `Open`, `SourceActive`, `Expired`, `SweepComplete` (every governed kind could be read), `IntegrityVerified` (no ' +
        'violation is left), `OwnersRelinked`, `Quiesced` (everything that spec.quiesce names is paused), `CheckedAtAdmission` (False: no replica saw the restore)',
    ),
  },
  NOT_OBSERVED,
);

export const restoreWindowSchema = t.object(
  'One restore: the restorers, the end of deferral, and the result of the sweep.',
  { spec: restoreWindowSpec, 'status?': status },
);

export type RestoreWindowSpec = t.TypeOf<typeof restoreWindowSpec>;
export type RestoreWindowStatus = t.TypeOf<typeof status>;
export type RestoreWindow = t.KubeObjectOf<typeof restoreWindowSchema>;
