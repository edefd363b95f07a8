/** The findings of a sweep, in the status of a RestoreWindow and in RestoreReports. */
import { array, integer, object, oneOf, string, type KubeObjectOf, type TypeOf } from './schema.ts';

const target = object('The object that the field names.', {
  group: string('The API group; empty for the core group.'),
  resource: string('The plural.'),
  'namespace?': string('Absent for cluster-scoped targets.'),
  name: string('The name.'),
});

const subject = object('The object.', {
  apiVersion: string('Group and version.'),
  kind: string('Kind.'),
  'namespace?': string('Absent for cluster-scoped objects.'),
  name: string('Name.'),
  'uid?': string('The uid of the object.'),
});

export const violation = object('One violation.', {
  policy: string('The AdmissionPolicy.'),
  'reference?': string('The name of the violated reference, if the violation is a reference.'),
  'check?': string('The violated check, if the violation is not a reference.'),
  object: subject,
  field: string('The field, e.g. `spec.disks[1].class`.'),
  reason: oneOf(
    'The problem: the target is missing or being deleted; another object holds the same unique value; a default is ' +
      'missing; another check refuses the object; a copy still references the namespace from which it was copied.',
    [
      'TargetMissing',
      'TargetTerminating',
      'Duplicate',
      'DefaultWouldChange',
      'CheckFailed',
      'CrossesNamespaceMapping',
    ],
  ),
  'message?': string('A message for users: what is wrong and what to do.'),
  'target?': target,
  'firstSeen?': string('Time of the first sweep that found it.', { format: 'date-time' }),
  'lastSeen?': string('Time of the last sweep that found it.', { format: 'date-time' }),
});

export const relinkItem = object('One owner reference, or one uid of a target.', {
  object: subject,
  'field?': string('The field with the uid, e.g. `spec.claimRef.uid`; absent for owner references.'),
  owner: object('The recorded owner, or the target.', {
    apiVersion: string('Group and version.'),
    kind: string('Kind.'),
    name: string('Name.'),
  }),
  result: oneOf('The result.', [
    'Linked',
    'WouldLink',
    'OwnerMissing',
    'OwnerTerminating',
    'OwnerAmbiguous',
    'AlreadyControlled',
    'NotAllowed',
    'Failed',
  ]),
  'message?': string('A message for users: what is wrong and what to do.'),
});

export type Violation = TypeOf<typeof violation>;
export type RelinkItem = TypeOf<typeof relinkItem>;

/** Maximum number of findings in one RestoreReport: an object in etcd is limited to 1.5 MiB. */
export const REPORT_ITEMS = 500;

const spec = object('One part of the report.', {
  window: string('The RestoreWindow of the sweep.'),
  part: integer('Index of this part, from 0.', { minimum: 0 }),
  parts: integer('Number of parts.', { minimum: 1 }),
  'violations?': array('Violations.', violation, { maxItems: REPORT_ITEMS }),
  'relink?': array('Owner references.', relinkItem, { maxItems: REPORT_ITEMS }),
});

export const restoreReportSchema = object(
  'Findings of a sweep that do not fit into its RestoreWindow. Written by Gatehouse.',
  { spec },
);

export type RestoreReportSpec = TypeOf<typeof spec>;
export type RestoreReport = KubeObjectOf<typeof restoreReportSchema>;
