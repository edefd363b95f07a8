/** One restore: who, what, until when. */
import { principal } from './restore-principal.ts';
import { apiGroup, array, boolean, object, oneOf, optional, string, textMap, type TypeOf } from './schema.ts';

const source = object(
  {
    type: optional(
      oneOf(['Manual', 'Detector', 'Rollback', 'Startup'], {
        description:
          'What opened it: a person; a RestoreDetector; Gatehouse itself after etcd was rolled back, or after it was away. The ' +
          'last two defer nothing: they only have everything swept.',
        default: 'Manual',
      }),
    ),
    detector: optional(string({ description: 'The RestoreDetector.', minLength: 1 })),
    ref: optional(
      object(
        {
          apiVersion: string({ description: 'Group and version.' }),
          kind: string({ description: 'Kind.' }),
          resource: optional(string({ description: 'Its plural.' })),
          namespace: optional(string({ description: 'Absent for cluster-scoped objects.' })),
          name: string({ description: 'Name.' }),
          uid: string({ description: 'Which life of that name.' }),
        },
        { description: 'The object of the backup tool, e.g. a Restore of Velero.' },
      ),
    ),
  },
  { description: 'What opened the window. Absent: a person.' },
);

const match = object(
  {
    operations: optional(
      array(oneOf(['CREATE', 'UPDATE', 'DELETE'], { description: 'An operation.' }), {
        description: 'Which requests may be deferred.',
        default: ['CREATE', 'UPDATE'],
        maxItems: 3,
      }),
    ),
    resources: optional(
      array(
        object(
          {
            apiGroup: apiGroup({ description: 'The API group, or `*`; empty for the core group.' }),
            resource: string({ description: 'The plural, or `*`.', minLength: 1 }),
          },
          { description: 'A kind.' },
        ),
        { description: 'Which kinds. Absent: all that policies govern.', maxItems: 64 },
      ),
    ),
    namespaces: optional(
      object(
        {
          include: optional(
            array(string({ description: 'A namespace.', minLength: 1 }), {
              description: 'Only these, and nothing that is cluster-scoped.',
              maxItems: 256,
            }),
          ),
          exclude: optional(
            array(string({ description: 'A namespace.', minLength: 1 }), {
              description: 'Not these.',
              maxItems: 256,
            }),
          ),
        },
        { description: 'Which namespaces. Absent: all, and what is cluster-scoped.' },
      ),
    ),
  },
  { description: 'What may be deferred.' },
);

const sweep = object(
  {
    relinkOwners: optional(
      oneOf(['Link', 'Report', 'Off'], {
        description: 'Whether owner references are linked again, only listed, or left alone.',
        default: 'Link',
      }),
    ),
    requireApprovalToLink: optional(
      boolean({
        description: 'Whether a person has to approve the links first: `gatehouse restore approve`.',
        default: false,
      }),
    ),
    approved: optional(
      boolean({ description: 'The links are approved. Cannot be taken back.', default: false }),
    ),
  },
  { description: 'The scan after the restore.' },
);

export const restoreWindowSpec = object(
  {
    source: optional(source),
    principals: array(principal, {
      description:
        'Who restores. Only their requests are deferred; all others are enforced as ever. Empty for Rollback and Startup.',
      maxItems: 32,
    }),
    match: optional(match),
    namespaceMapping: optional(
      textMap({
        description: 'Maps a namespace of the backup to the namespace that it was restored as.',
        maxProperties: 256,
      }),
    ),
    overrides: optional(
      object(
        {
          references: optional(
            oneOf(['Enforce'], {
              description: 'Enforce: references are checked even while the window is open.',
            }),
          ),
          unique: optional(
            oneOf(['Enforce'], {
              description: 'Enforce: unique values are checked even while the window is open.',
            }),
          ),
        },
        { description: 'Checks that are not deferred although their policies would defer them.' },
      ),
    ),
    expiresAt: string({
      description: 'When the window expires: at most 24 h after it opened. RFC 3339.',
      format: 'date-time',
    }),
    closeWithSource: optional(
      boolean({
        description: 'Whether the window closes when its source says that all is written.',
        default: true,
      }),
    ),
    close: optional(
      boolean({ description: 'Ends the window now. Cannot be taken back: open a new one.', default: false }),
    ),
    sweep: optional(sweep),
    reason: optional(
      string({ description: 'Why it was opened, for those who read the report.', maxLength: 1024 }),
    ),
  },
  {
    description:
      'The restore. Only `close`, `sweep.approved` and an earlier `expiresAt` can be written later.',
  },
);

export type RestoreWindowSpec = TypeOf<typeof restoreWindowSpec>;
