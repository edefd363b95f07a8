/** The spec of a RestoreWindow: one restore. */
import { principal } from './principals.ts';
import { apiGroup, array, boolean, object, oneOf, string, textMap, type TypeOf } from './schema.ts';

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
      apiGroup: apiGroup('The API group, or `*`; empty for the core group.'),
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
    'Whether lost owner references are linked, only listed, or ignored.',
    ['Link', 'Report', 'Off'],
    { default: 'Link' },
  ),
  'requireApprovalToLink?': boolean(
    'Whether a user must approve the links first with `gatehouse restore approve`.',
    { default: false },
  ),
  'approved?': boolean('Approves the links. Cannot be undone.', { default: false }),
});

export const restoreWindowSpec = object(
  'The restore. Later, only `close`, `sweep.approved` and an earlier `expiresAt` can be written.',
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
    'reason?': string('Why the window was opened, for readers of the report.', { maxLength: 1024 }),
  },
);

export type RestoreWindowSpec = TypeOf<typeof restoreWindowSpec>;
