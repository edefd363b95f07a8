/** What Gatehouse changes in an object: `spec.defaults` and `spec.mutations` of an AdmissionPolicy. */
import { FIELD_PATH, anything, array, mapList, object, oneOf, string } from './schema.ts';

const defaultRule = object('One default.', {
  path: string(`The field to fill where it is absent. ${FIELD_PATH}`, { minLength: 1 }),
  'value?': anything('The value it gets; this or expression.'),
  'expression?': string(
    'CEL that makes the value; it sees object, oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

const mutation = object('A change. Applied to its own result it must change nothing.', {
  name: string('The name of the mutation, for messages and metrics.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
  }),
  'type?': oneOf(
    'What the expression yields: an object that is merged (RFC 7386: null removes; Merge), or a list of {op, path, value} (RFC 6902; JSONPatch). Absent: Merge.',
    ['Merge', 'JSONPatch'],
  ),
  'condition?': string('CEL; the mutation is left out where it is false. Absent: always.', { minLength: 1 }),
  expression: string(
    'CEL; it sees object as the mutations before left it, oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

export const policyDefaults = array('Values for fields that are absent.', defaultRule, { maxItems: 256 });

export const policyMutations = mapList('Changes in their order, after the defaults.', 'name', mutation, {
  maxItems: 64,
});
