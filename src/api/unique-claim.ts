import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import { apiGroup, array, object, optional, string, type TypeOf } from './schema.ts';

const holder = object(
  {
    group: apiGroup({ description: 'The API group; empty for the core group.' }),
    resource: string({ description: 'The plural.' }),
    namespace: optional(string({ description: 'Absent for cluster-scoped objects.' })),
    name: string({ description: 'The name.', minLength: 1 }),
  },
  {
    description:
      'The object that may have the values. It may be deleted and recreated: its uid is not compared.',
  },
);

const admitted = object(
  {
    uid: optional(string({ description: 'The uid of the object in that request.' })),
    resourceVersion: optional(
      string({
        description: 'Of an update: the version of the object that it changes. Absent for a creation.',
      }),
    ),
    at: string({ description: 'When the request was admitted.', format: 'date-time' }),
  },
  { description: 'An admitted write.' },
);

/** More would say nothing that the time of the last one does not. */
export const MOST_REQUESTS = 8;

const spec = object(
  {
    policy: string({ description: 'The AdmissionPolicy.' }),
    rule: string({ description: 'The entry of its spec.validate.unique.' }),
    values: array(string({ description: 'A value as JSON, shortened.' }), {
      description:
        'What is held, in the order of the paths of the rule. For people: the name of the claim is what counts.',
      maxItems: 8,
    }),
    holder,
    claimedAt: string({
      description:
        'When the last write of the holder with these values was admitted, by the clock of the API server.',
      format: 'date-time',
    }),
    requests: optional(
      array(admitted, {
        description: 'Writes of the holder that may still be on their way into storage.',
        maxItems: MOST_REQUESTS,
      }),
    ),
  },
  { description: 'Who holds which values.' },
);

/** The schema of a UniqueClaim without `apiVersion`, `kind` and `metadata`. */
export const uniqueClaimSchema = object(
  { spec },
  {
    description:
      'Values that one object holds, so that no other one takes them. Written by Gatehouse, one for each key of a unique rule; the name is made from the values.',
  },
);

export type UniqueClaimSpec = TypeOf<typeof spec>;
/** A write of the holder that may still be on its way into storage. */
export type AdmittedRequest = TypeOf<typeof admitted>;

export interface UniqueClaim extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: UniqueClaimSpec;
}
