import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import { relinkItem, violation } from './restore-findings.ts';
import {
  array,
  boolean,
  countMap,
  integer,
  object,
  oneOf,
  string,
  textMap,
  type KubeObjectOf,
  type TypeOf,
  type ValidationRule,
} from './schema.ts';
import { principal, ACCOUNTS_OF, EVERYBODY, RESERVED_GROUP_PREFIXES } from './principals.ts';
import { quiesce } from './quiesce.ts';

const unchanged = (field: string): ValidationRule => ({
  rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
  fieldPath: `.${field}`,
  message: 'it cannot be changed once the window is there: create a new one',
});

/** The rules for `spec` that the API server enforces even if no replica answers. `restore/window-admission` checks more. */
const RESTORE_WINDOW_RULES: readonly ValidationRule[] = [
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

const source = object('The origin of the window. Absent: a user opened it.', {
  'type?': oneOf(
    'What opened it: a user; a RestoreDetector; Gatehouse itself after a rollback of etcd, or after an absence. The last ' +
      'two defer nothing and only start a sweep.',
    ['Manual', 'Detector', 'Rollback', 'Startup'],
    { default: 'Manual' },
  ),
  'detector?': string('The RestoreDetector.', { minLength: 1 }),
  'ref?': object('The object of the backup tool, e.g. a Restore of Velero.', {
    apiVersion: string('Group and version.'),
    kind: string('Kind.'),
    'resource?': string('Its plural.'),
    'namespace?': string('Absent for cluster-scoped objects.'),
    name: string('Name.'),
    uid: string('The uid of the object.'),
    'createdAt?': string('When it was created (RFC 3339). This restore did not write older objects.'),
  }),
});

const match = object('Requests whose checks may be deferred.', {
  'operations?': array(
    'Operations whose checks may be deferred.',
    oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE']),
    { default: ['CREATE', 'UPDATE'], maxItems: 3 },
  ),
  'resources?': array(
    'Kinds. Default: all kinds that policies govern.',
    object('A kind.', {
      apiGroup: string('The API group, or `*`; empty for the core group.'),
      resource: string('The plural, or `*`.', { minLength: 1 }),
    }),
    { maxItems: 64 },
  ),
  'namespaces?': object('Namespaces. Default: all, and cluster-scoped objects.', {
    'include?': array(
      'Only these namespaces, and no cluster-scoped objects.',
      string('A namespace.', { minLength: 1 }),
      { maxItems: 256 },
    ),
    'exclude?': array('Not these.', string('A namespace.', { minLength: 1 }), { maxItems: 256 }),
  }),
});

const sweep = object('The sweep after the restore.', {
  'relinkOwners?': oneOf(
    "Whether lost owner references are linked, only listed, or ignored. In YAML, quote 'Off': kubectl reads it as false.",
    ['Link', 'Report', 'Off'],
    { default: 'Link' },
  ),
  'requireApprovalToLink?': boolean(
    'Whether a user must approve the links first with `gatehouse restore approve`.',
    { default: false },
  ),
  'approved?': boolean('Approves the links. Cannot be undone.', { default: false }),
});

const restoreWindowSpec = object(
  'The restore. Only `close`, `sweep.approved` and an earlier `expiresAt` can be changed later.',
  {
    'source?': source,
    principals: array(
      'The restorers. Only their requests are deferred; all checks apply to other users. Empty for Rollback and Startup.',
      principal,
      { maxItems: 32 },
    ),
    'match?': match,
    'namespaceMapping?': textMap(
      'Maps namespaces of the backup to the namespaces into which they are restored.',
      {
        maxProperties: 256,
      },
    ),
    'overrides?': object('Checks that are not deferred even if their policies would defer them.', {
      'references?': oneOf('Enforce: references are checked even while the window is open.', ['Enforce']),
      'unique?': oneOf('Enforce: unique values are checked even while the window is open.', ['Enforce']),
    }),
    expiresAt: string('When the window expires, at most 24 h after it opened (RFC 3339).', {
      format: 'date-time',
    }),
    'closeWithSource?': boolean('Whether the window closes when its source completes.', {
      default: true,
    }),
    'close?': boolean('Closes the window now. Cannot be undone: open a new one.', { default: false }),
    'sweep?': sweep,
    'quiesce?': quiesce,
    'reason?': string('Why the window was opened, for readers of the report.', { maxLength: 1024 }),
  },
  { 'x-kubernetes-validations': RESTORE_WINDOW_RULES },
);

const total = (description: string) => integer(description, { format: 'int64', minimum: 0 });

const lastSweep = object('The last complete sweep.', {
  startedAt: string('Start.', { format: 'date-time' }),
  finishedAt: string('End.', { format: 'date-time' }),
  objectsScanned: integer('Number of objects read.', { format: 'int64' }),
  interim: boolean('True if admitted writes could still be stored after this sweep.'),
});

const currentSweep = object('The sweep in progress, if it takes long. Updated every few seconds.', {
  startedAt: string('Start.', { format: 'date-time' }),
  objectsScanned: total('Number of objects read so far.'),
  'objectsTotal?': total(
    'Approximate number of objects to read; absent if the API server does not report it.',
  ),
  resource: string('The resource being read, e.g. `servers.infra.example.com`.'),
});

const relink = object('Owner references linked after the restore.', {
  found: total('Recorded owner references that the restore lost.'),
  linked: total('Number that sweeps have linked.'),
  skipped: total('Number that sweeps have skipped; items has the reasons.'),
  failed: total('Number that could not be written.'),
  'items?': array('The first 50 owner references that were not linked.', relinkItem, { maxItems: 50 }),
});

const status = object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'phase?': oneOf(
      'The phase of the restore: Open, Settling (closed; admitted writes may still be stored), then the result. Refused: ' +
        'the window never opened.',
      ['Open', 'Settling', 'Completed', 'CompletedWithViolations', 'Refused'],
    ),
    'openedAt?': string('When Gatehouse first saw the window.', { format: 'date-time' }),
    'closedAt?': string('When the window closed.', { format: 'date-time' }),
    'closeReason?': oneOf('Why the window closed.', ['Manual', 'Expired', 'SourceInactive', 'SourceDeleted']),
    'sourcePhase?': string('The last phase of the source.'),
    'currentSweep?': currentSweep,
    'lastSweep?': lastSweep,
    'violations?': object('Violations that still exist.', {
      total: total('Number of violations.'),
      'byPolicy?': countMap('Number of violations by policy.'),
      items: array('The first 50; RestoreReports list the rest.', violation, { maxItems: 50 }),
    }),
    'relink?': relink,
    'conditions?': conditionsSchema(
      '`Ready` (open, or over without a violation), `Reconciling` (settling), `Stalled` (refused, or violations are left), `Open`, `SourceActive`, `Expired`, `SweepComplete` (every governed kind could be read), `IntegrityVerified` (no ' +
        'violation is left), `OwnersRelinked`, `Quiesced` (everything that spec.quiesce names is paused), `CheckedAtAdmission` (False: no replica saw the restore)',
    ),
  },
  NOT_OBSERVED,
);

export const restoreWindowSchema = object(
  'One restore: the restorers, the end of deferral, and the result of the sweep.',
  { spec: restoreWindowSpec, 'status?': status },
);

export type RestoreWindowSpec = TypeOf<typeof restoreWindowSpec>;
export type RestoreWindowStatus = TypeOf<typeof status>;
export type RestoreWindow = KubeObjectOf<typeof restoreWindowSchema>;
