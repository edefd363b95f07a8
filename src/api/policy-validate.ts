import * as t from './schema.ts';

const reference = t.object('A foreign key: the object that the field names must exist.', {
  name: t.string(
    'The name of the reference, for messages, metrics and reports; rules see the target as refs.<name>.',
    t.LABEL,
  ),
  path: t.string(`The field that holds the name of the target. ${t.FIELD_PATH}`, { minLength: 1 }),
  'namespacePath?': t.string(
    'The field that holds the namespace of a namespaced target. Absent: the namespace of the object itself.',
  ),
  'optional?': t.boolean(
    'Whether the field may be absent, null or empty. If false, an object without a target is refused. Default: true.',
  ),
  target: t.object('The object that the field names.', {
    apiGroup: t.string('The API group of the target; empty for the core group.'),
    resource: t.string('The plural of the target, e.g. `datacenters`.', { minLength: 1 }),
  }),
  'uidPath?': t.string(
    'A field that holds the uid of the target, e.g. `spec.claimRef.uid`. After a restore, Gatehouse replaces the old uid of a restored target with the current uid. Absent: nothing is replaced.',
  ),
  'onTargetDelete?': t.oneOf(
    'What happens when a target is deleted while objects reference it. Allow: nothing. Restrict: Gatehouse refuses the deletion. Cascade: Gatehouse deletes these objects afterwards. SetNull: Gatehouse removes the name from them. SetDefault: Gatehouse writes defaultTarget into them. Default: Allow.',
    ['Allow', 'Restrict', 'Cascade', 'SetNull', 'SetDefault'],
  ),
  'defaultTarget?': t.string('The name of the target that onTargetDelete: SetDefault writes.', {
    minLength: 1,
    maxLength: 253,
  }),
  'guarantee?': t.oneOf(
    'What happens if a write adds a reference while another request deletes the target. BestEffort: both can succeed within a few milliseconds, and the audit reports the missing target. Serializable: they cannot both succeed. This requires onTargetDelete: Restrict, and one more write for each request that adds a reference. Default: BestEffort.',
    ['BestEffort', 'Serializable'],
  ),
});

const unique = t.object('Values that no two objects may share.', {
  name: t.string('The name of the rule, for messages, metrics and claims.', t.LABEL),
  paths: t.array(
    'The fields whose combined value is unique. If one of them is absent, the object claims nothing; [*] claims each element.',
    t.string(t.FIELD_PATH, { minLength: 1 }),
    { minItems: 1, maxItems: 8 },
  ),
  'scope?': t.oneOf(
    'Scope of the uniqueness: all objects of the kind (Cluster), or those in the same namespace (Namespace). Default: Cluster.',
    ['Cluster', 'Namespace'],
  ),
  'maxValues?': t.integer('The maximum number of values of one object. Default: 16.', {
    minimum: 1,
    maximum: 256,
  }),
});

const rule = t.object('A condition in CEL.', {
  'name?': t.string('The name of the rule, for messages and metrics.', t.LABEL),
  expression: t.string(
    'CEL that is true for valid objects. Variables: object, oldObject, request, namespaceObject, params, refs.<name> and variables.<name>.',
    { minLength: 1 },
  ),
  'message?': t.string('The message of the refusal: what is wrong and what to do.'),
  'messageExpression?': t.string(
    'CEL that returns the message. If it fails, or the result is empty or has line breaks or invisible characters, message is used.',
  ),
  'reason?': t.oneOf('The reason in the status of the refusal, the same as for ValidatingAdmissionPolicy.', [
    'Unauthorized',
    'Forbidden',
    'Invalid',
    'RequestEntityTooLarge',
  ]),
  'fieldPath?': t.string(`The field to name in the causes of the refusal. ${t.FIELD_PATH}`),
});

export const policyValidate = t.object('Checks that an object must pass.', {
  'schema?': t.anyObject<object>(
    'JSON Schema 2020-12 for the whole object, for constraints that a structural schema cannot express. Patterns are RE2.',
  ),
  'immutable?': t.array(
    'Fields that cannot be changed or removed once they are set.',
    t.string(t.FIELD_PATH, { minLength: 1 }),
  ),
  'immutableFromCreation?': t.array(
    'Fields that keep their value from creation: a field that was absent cannot be set later.',
    t.string(t.FIELD_PATH, { minLength: 1 }),
  ),
  'references?': t.mapList('Foreign keys.', 'name', reference, { maxItems: 64 }),
  'unique?': t.mapList('Unique values.', 'name', unique, { maxItems: 16 }),
  'rules?': t.array('Conditions in CEL.', rule, { maxItems: 128 }),
});

export type ReferenceRule = t.TypeOf<typeof reference>;
export type UniqueRule = t.TypeOf<typeof unique>;
export type ValidationRule = t.TypeOf<typeof rule>;
