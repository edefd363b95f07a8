import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import type { LabelSelector } from '../json/label-selector.ts';
import { anyObject, array, object, string, type KubeObjectOf, type TypeOf } from './schema.ts';

const spec = object('Which objects of this namespace skip which checks, why, and until when.', {
  policy: string('The AdmissionPolicy. It must have `policyExceptions: Accept`.', {
    minLength: 1,
    maxLength: 253,
  }),
  'checks?': array(
    'The checks to skip. Default: all.',
    string('schema, immutable, references, unique, rules, or the name of a reference, unique rule or rule.', {
      minLength: 1,
    }),
    { minItems: 1, maxItems: 64 },
  ),
  objects: object(
    'The objects, in the namespace of the exception. They match all of these fields.',
    {
      'resources?': array(
        'Kinds. Default: all that the policy governs.',
        object('A kind.', {
          apiGroup: string('The API group; empty for the core group.'),
          resource: string('The plural.', { minLength: 1 }),
        }),
        { minItems: 1, maxItems: 64 },
      ),
      'names?': array('Names.', string('A name; a trailing * matches any suffix.', { minLength: 1 }), {
        minItems: 1,
        maxItems: 256,
      }),
      'objectSelector?': anyObject<LabelSelector>(
        'Labels. Not a security boundary: users can change labels.',
      ),
    },
    { minProperties: 1 },
  ),
  'users?': array(
    'Only requests of these users. Audits and sweeps then report the objects, because they run without a user.',
    string('A user name; a trailing * matches any suffix.', { minLength: 1 }),
    { minItems: 1, maxItems: 64 },
  ),
  'groups?': array('Only requests of members of these groups.', string('A group.', { minLength: 1 }), {
    minItems: 1,
    maxItems: 64,
  }),
  reason: string('Why the exception exists.', { minLength: 1, maxLength: 1024 }),
  expiresAt: string('When the exception ends, by the clock of the API server (RFC 3339).', {
    format: 'date-time',
  }),
});

const status = object(
  'Written by Gatehouse. It informs only: Gatehouse decides by the spec.',
  {
    'observedGeneration?': observedGeneration,
    'conditions?': conditionsSchema(
      '`Ready` (the policy accepts it, and it has not expired), `Reconciling` (its policy does not exist yet), `Stalled` (a user must act)',
    ),
  },
  NOT_OBSERVED,
);

export const policyExceptionSchema = object(
  'Exempts objects of its namespace from checks of a policy that accepts exceptions. Users who can create PolicyExceptions can bypass checks.',
  { spec, 'status?': status },
);

export type PolicyExceptionSpec = TypeOf<typeof spec>;
export type PolicyException = KubeObjectOf<typeof policyExceptionSchema>;
