/** One restore: who, what, until when. */
import { principal } from './principals.ts';
import { apiGroup, array, boolean, object, oneOf, string, textMap, type TypeOf } from './schema.ts';

const source = object('What opened the window. Absent: a person.', {
  'type?': oneOf(
    'What opened it: a person; a RestoreDetector; Gatehouse itself after etcd was rolled back, or after it was away. The ' +
      'last two defer nothing: they only have everything swept.',
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
    uid: string('Which life of that name.'),
  }),
});

const match = object('What may be deferred.', {
  'operations?': array(
    'Which requests may be deferred.',
    oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE']),
    { default: ['CREATE', 'UPDATE'], maxItems: 3 },
  ),
  'resources?': array(
    'Which kinds. Absent: all that policies govern.',
    object('A kind.', {
      apiGroup: apiGroup('The API group, or `*`; empty for the core group.'),
      resource: string('The plural, or `*`.', { minLength: 1 }),
    }),
    { maxItems: 64 },
  ),
  'namespaces?': object('Which namespaces. Absent: all, and what is cluster-scoped.', {
    'include?': array(
      'Only these, and nothing that is cluster-scoped.',
      string('A namespace.', { minLength: 1 }),
      { maxItems: 256 },
    ),
    'exclude?': array('Not these.', string('A namespace.', { minLength: 1 }), { maxItems: 256 }),
  }),
});

const sweep = object('The scan after the restore.', {
  'relinkOwners?': oneOf(
    'Whether owner references are linked again, only listed, or left alone.',
    ['Link', 'Report', 'Off'],
    { default: 'Link' },
  ),
  'requireApprovalToLink?': boolean(
    'Whether a person has to approve the links first: `gatehouse restore approve`.',
    { default: false },
  ),
  'approved?': boolean('The links are approved. Cannot be taken back.', { default: false }),
});

export const restoreWindowSpec = object(
  'The restore. Only `close`, `sweep.approved` and an earlier `expiresAt` can be written later.',
  {
    'source?': source,
    principals: array(
      'Who restores. Only their requests are deferred; all others are enforced as ever. Empty for Rollback and Startup.',
      principal,
      { maxItems: 32 },
    ),
    'match?': match,
    'namespaceMapping?': textMap('Maps a namespace of the backup to the namespace that it was restored as.', {
      maxProperties: 256,
    }),
    'overrides?': object('Checks that are not deferred although their policies would defer them.', {
      'references?': oneOf('Enforce: references are checked even while the window is open.', ['Enforce']),
      'unique?': oneOf('Enforce: unique values are checked even while the window is open.', ['Enforce']),
    }),
    expiresAt: string('When the window expires: at most 24 h after it opened. RFC 3339.', {
      format: 'date-time',
    }),
    'closeWithSource?': boolean('Whether the window closes when its source says that all is written.', {
      default: true,
    }),
    'close?': boolean('Ends the window now. Cannot be taken back: open a new one.', { default: false }),
    'sweep?': sweep,
    'reason?': string('Why it was opened, for those who read the report.', { maxLength: 1024 }),
  },
);

export type RestoreWindowSpec = TypeOf<typeof restoreWindowSpec>;
