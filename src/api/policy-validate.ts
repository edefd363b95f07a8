/** What an object has to satisfy: `spec.validate` of an AdmissionPolicy. */
import {
  FIELD_PATH,
  anyObject,
  apiGroup,
  array,
  boolean,
  mapList,
  object,
  oneOf,
  string,
  type TypeOf,
} from './schema.ts';

const NAME = {
  minLength: 1,
  maxLength: 63,
  pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
} as const;

const reference = object('A foreign key: the object that the field names has to exist.', {
  name: string(
    'The name of the reference, for messages, metrics and reports; rules see the target as refs.<name>.',
    { ...NAME },
  ),
  path: string(`The field that holds the name of the target. ${FIELD_PATH}`, { minLength: 1 }),
  'namespacePath?': string(
    'The field that holds the namespace of a namespaced target. Absent: the namespace of the object itself.',
  ),
  'optional?': boolean(
    'Whether the field may be absent, null or empty. If not, an object without a target is refused. Absent: it may.',
  ),
  target: object('What the field names.', {
    apiGroup: apiGroup('The API group of the target; empty for the core group.'),
    resource: string('The plural of the target, e.g. `datacenters`.', { minLength: 1 }),
  }),
  'onTargetDelete?': oneOf(
    'Whether a target may be deleted while an object still names it (Allow), or not (Restrict). Absent: Allow.',
    ['Allow', 'Restrict'],
  ),
});

const unique = object('Values that no two objects share.', {
  name: string('The name of the rule, for messages, metrics and claims.', { ...NAME }),
  paths: array(
    'The fields that together are held by one object only. An object in which one of them is absent claims nothing; [*] claims each element.',
    string(FIELD_PATH, { minLength: 1 }),
    { minItems: 1, maxItems: 8 },
  ),
  'scope?': oneOf(
    'Among which objects: all of the kind (Cluster), or those of the same namespace (Namespace). Absent: Cluster.',
    ['Cluster', 'Namespace'],
  ),
});

const rule = object('A condition in CEL.', {
  'name?': string('The name of the rule, for messages and metrics.', { ...NAME }),
  expression: string(
    'CEL that is true for what is right. It sees object, oldObject, request, namespaceObject, params, refs.<name> and variables.<name>.',
    { minLength: 1 },
  ),
  'message?': string('What to tell users otherwise: what is wrong and what to do.'),
  'messageExpression?': string('CEL that makes the message. Where it fails or is empty, message holds.'),
  'reason?': oneOf('The reason in the status of the refusal, as in ValidatingAdmissionPolicy.', [
    'Unauthorized',
    'Forbidden',
    'Invalid',
    'RequestEntityTooLarge',
  ]),
  'fieldPath?': string(`The field that is to blame, for the causes of the refusal. ${FIELD_PATH}`),
});

export const policyValidate = object('What an object has to satisfy.', {
  'schema?': anyObject<object>(
    'JSON Schema 2020-12 for the whole object, beyond what a structural schema can say. Patterns are RE2.',
  ),
  'immutable?': array(
    'Fields that cannot be changed or removed once they are set.',
    string(FIELD_PATH, { minLength: 1 }),
  ),
  'immutableFromCreation?': array(
    'Fields that stay as they were at creation: also one that was absent cannot be set later.',
    string(FIELD_PATH, { minLength: 1 }),
  ),
  'references?': mapList('Foreign keys.', 'name', reference, { maxItems: 64 }),
  'unique?': mapList('Values that are held once.', 'name', unique, { maxItems: 16 }),
  'rules?': array('Conditions in CEL.', rule, { maxItems: 128 }),
});

export type ReferenceRule = TypeOf<typeof reference>;
export type UniqueRule = TypeOf<typeof unique>;
export type ValidationRule = TypeOf<typeof rule>;
