/** What a sweep finds: in the status of a RestoreWindow, and in RestoreReports where there is more of it. */
import { apiGroup, object, oneOf, optional, string, type TypeOf } from './schema.ts';

const target = object(
  {
    group: apiGroup({ description: 'The API group; empty for the core group.' }),
    resource: string({ description: 'The plural.' }),
    namespace: optional(string({ description: 'Absent for cluster-scoped targets.' })),
    name: string({ description: 'The name.' }),
  },
  { description: 'What the field names.' },
);

const subject = object(
  {
    apiVersion: string({ description: 'Group and version.' }),
    kind: string({ description: 'Kind.' }),
    namespace: optional(string({ description: 'Absent for cluster-scoped objects.' })),
    name: string({ description: 'Name.' }),
    uid: optional(string({ description: 'Which life of that name.' })),
  },
  { description: 'The object.' },
);

export const violation = object(
  {
    policy: string({ description: 'The AdmissionPolicy.' }),
    reference: optional(
      string({ description: 'The reference of that policy, if it is one that is broken.' }),
    ),
    check: optional(string({ description: 'The check of that policy, if it is not a reference.' })),
    object: subject,
    field: string({ description: 'The field, e.g. `spec.disks[1].class`.' }),
    reason: oneOf(
      [
        'TargetMissing',
        'TargetTerminating',
        'Duplicate',
        'DefaultWouldChange',
        'CheckFailed',
        'CrossesNamespaceMapping',
      ],
      {
        description:
          'What is wrong: the target is not there, or is going; another object holds the same unique value; a default is ' +
          'lacking; another check refuses the object; a copy still names something in the namespace that it was copied from.',
      },
    ),
    message: optional(string({ description: 'The same for people, and what to do.' })),
    target: optional(target),
    firstSeen: optional(string({ description: 'The sweep that found it first.', format: 'date-time' })),
    lastSeen: optional(string({ description: 'The last sweep that found it.', format: 'date-time' })),
  },
  { description: 'One violation.' },
);

export const relinkItem = object(
  {
    object: subject,
    owner: object(
      {
        apiVersion: string({ description: 'Group and version.' }),
        kind: string({ description: 'Kind.' }),
        name: string({ description: 'Name.' }),
      },
      { description: 'The owner that was recorded.' },
    ),
    result: oneOf(
      [
        'Linked',
        'WouldLink',
        'OwnerMissing',
        'OwnerTerminating',
        'OwnerAmbiguous',
        'AlreadyControlled',
        'NotAllowed',
        'Failed',
      ],
      { description: 'What became of it.' },
    ),
    message: optional(string({ description: 'The same for people, and what to do.' })),
  },
  { description: 'One owner reference.' },
);

export type Violation = TypeOf<typeof violation>;
export type RelinkItem = TypeOf<typeof relinkItem>;
