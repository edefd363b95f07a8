/** The changes that Gatehouse makes to an object: `spec.defaults` and `spec.mutations` of an AdmissionPolicy. */
import { FIELD_PATH, anything, array, mapList, object, oneOf, string } from './schema.ts';

const defaultRule = object('One default.', {
  path: string(`The field to set if it is absent. ${FIELD_PATH}`, { minLength: 1 }),
  'value?': anything('The value. Set either this or expression.'),
  'expression?': string(
    'CEL that returns the value. Variables: object, oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

const mutation = object('A change. It must be idempotent.', {
  name: string('The name of the mutation, for messages and metrics.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
  }),
  'type?': oneOf(
    'Type of the result: an object to merge (Merge, RFC 7386: null removes), or a list of {op, path, value} (JSONPatch, RFC 6902). Default: Merge.',
    ['Merge', 'JSONPatch'],
  ),
  'condition?': string('CEL; the mutation is skipped if it is false. Default: always applied.', {
    minLength: 1,
  }),
  expression: string(
    'CEL. Variables: object (as left by previous mutations), oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

export const policyDefaults = array('Values for absent fields.', defaultRule, { maxItems: 256 });

export const policyMutations = mapList(
  'Changes, applied in this order after the defaults.',
  'name',
  mutation,
  {
    maxItems: 64,
  },
);
