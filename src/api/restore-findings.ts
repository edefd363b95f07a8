/** What a sweep finds: in the status of a RestoreWindow, and in RestoreReports where there is more of it. */
import { apiGroup, object, oneOf, string, type TypeOf } from './schema.ts';

const target = object('What the field names.', {
  group: apiGroup('The API group; empty for the core group.'),
  resource: string('The plural.'),
  'namespace?': string('Absent for cluster-scoped targets.'),
  name: string('The name.'),
});

const subject = object('The object.', {
  apiVersion: string('Group and version.'),
  kind: string('Kind.'),
  'namespace?': string('Absent for cluster-scoped objects.'),
  name: string('Name.'),
  'uid?': string('Which life of that name.'),
});

export const violation = object('One violation.', {
  policy: string('The AdmissionPolicy.'),
  'reference?': string('The reference of that policy, if it is one that is broken.'),
  'check?': string('The check of that policy, if it is not a reference.'),
  object: subject,
  field: string('The field, e.g. `spec.disks[1].class`.'),
  reason: oneOf(
    'What is wrong: the target is not there, or is going; another object holds the same unique value; a default is ' +
      'lacking; another check refuses the object; a copy still names something in the namespace that it was copied from.',
    [
      'TargetMissing',
      'TargetTerminating',
      'Duplicate',
      'DefaultWouldChange',
      'CheckFailed',
      'CrossesNamespaceMapping',
    ],
  ),
  'message?': string('The same for people, and what to do.'),
  'target?': target,
  'firstSeen?': string('The sweep that found it first.', { format: 'date-time' }),
  'lastSeen?': string('The last sweep that found it.', { format: 'date-time' }),
});

export const relinkItem = object('One owner reference.', {
  object: subject,
  owner: object('The owner that was recorded.', {
    apiVersion: string('Group and version.'),
    kind: string('Kind.'),
    name: string('Name.'),
  }),
  result: oneOf('What became of it.', [
    'Linked',
    'WouldLink',
    'OwnerMissing',
    'OwnerTerminating',
    'OwnerAmbiguous',
    'AlreadyControlled',
    'NotAllowed',
    'Failed',
  ]),
  'message?': string('The same for people, and what to do.'),
});

export type Violation = TypeOf<typeof violation>;
export type RelinkItem = TypeOf<typeof relinkItem>;
