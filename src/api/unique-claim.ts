import { array, object, string, type KubeObjectOf, type TypeOf } from './schema.ts';

const holder = object(
  'The object that may hold the values. It may be deleted and recreated: its uid is not compared.',
  {
    group: string('The API group; empty for the core group.'),
    resource: string('The plural.'),
    'namespace?': string('Absent for cluster-scoped objects.'),
    name: string('The name.', { minLength: 1 }),
  },
);

const admitted = object('An admitted write.', {
  'uid?': string('The uid of the object in that request.'),
  'resourceVersion?': string(
    'For an update, the resource version of the object that it changes. Absent for a creation.',
  ),
  at: string('When the request was admitted.', { format: 'date-time' }),
});

/** A longer list would add nothing: the time of the last write is enough. */
export const MAX_REQUESTS = 8;

const spec = object('The holder and the values.', {
  policy: string('The AdmissionPolicy.'),
  rule: string('The entry of its spec.validate.unique, or references/ and the name of a reference.'),
  values: array(
    'The held values, in the order of the paths of the rule. Informational: only the name of the claim counts.',
    string('A value as JSON, shortened.'),
    { maxItems: 8 },
  ),
  holder,
  claimedAt: string(
    'When the last write of the holder with these values was admitted, according to the clock of the API server.',
    { format: 'date-time' },
  ),
  'requests?': array('Recently admitted writes of the holder, stored or not.', admitted, {
    maxItems: MAX_REQUESTS,
  }),
});

export const uniqueClaimSchema = object(
  'Reserves values for one object: one for each key of a unique rule, with a name that is derived from the values. Or announces a write or a deletion for a reference with guarantee Serializable, until it is stored. Written by Gatehouse.',
  { spec },
);

export type AdmittedRequest = TypeOf<typeof admitted>;
export type UniqueClaim = KubeObjectOf<typeof uniqueClaimSchema>;
