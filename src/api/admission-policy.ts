import { conditionsSchema } from './conditions.ts';
import { policyMatch, type LabelSelector } from './policy-match.ts';
import { policyDefaults, policyMutations } from './policy-mutate.ts';
import { initiallyDeferred, policyOwners, policyRestore } from './policy-restore.ts';
import { policyValidate } from './policy-validate.ts';
import {
  anyObject,
  apiGroup,
  array,
  boolean,
  integer,
  mapList,
  object,
  oneOf,
  string,
  type KubeObjectOf,
  type TypeOf,
} from './schema.ts';

const params = object('An object that expressions see as params, e.g. a ConfigMap with limits.', {
  apiGroup: apiGroup('The API group of the object; empty for the core group.'),
  resource: string('Its plural, e.g. `configmaps`.', { minLength: 1 }),
  name: string('Its name.', { minLength: 1 }),
  'namespace?': string(
    'Its namespace, if it has one. Absent for a namespaced kind: the namespace of the object checked.',
  ),
  'whenMissing?': oneOf(
    'What happens while there is no such object: as if every rule that reads params failed, or held.',
    ['Deny', 'Allow'],
    { default: 'Deny' },
  ),
});

const variable = object('A value that several expressions use.', {
  name: string('Expressions see it as variables.<name>.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  }),
  expression: string('CEL; computed at most once a request, when it is needed.', { minLength: 1 }),
});

const warning = object('A warning that kubectl shows, which refuses nothing.', {
  'condition?': string('CEL; the warning is given where it is true. Absent: always.', { minLength: 1 }),
  'message?': string('The warning; this or messageExpression.'),
  'messageExpression?': string('CEL that makes the warning.', { minLength: 1 }),
});

const auditAnnotation = object('A note in the audit log.', {
  key: string('The key; the API server puts the name of the webhook before it.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$',
  }),
  valueExpression: string('CEL that makes the value; null or an empty text leaves it out.', { minLength: 1 }),
});

const exception = object('A case that the checks leave alone: all that is said here has to hold.', {
  name: string('The name of the exception, for the audit log.', { minLength: 1, maxLength: 63 }),
  reason: string('Why there is one, for those who read the policy later.', { minLength: 1 }),
  'expiresAt?': string('When it ends. Absent: never.', { format: 'date-time' }),
  'users?': array('Whose requests.', string('A user name; a trailing * matches any suffix.')),
  'groups?': array('Whose requests, by group.', string('A group.')),
  'namespaces?': array(
    'Objects in which namespaces.',
    string('A namespace; a trailing * matches any suffix.'),
  ),
  'names?': array('The names of the objects.', string('A name; a trailing * matches any suffix.')),
  'objectSelector?': anyObject<LabelSelector>(
    'Objects with which labels. Not a security boundary: users can label their way out.',
  ),
  'checks?': array(
    'Which checks are left out. Absent: all.',
    string('schema, immutable, references, unique, rules, or the name of a reference, unique rule or rule.'),
  ),
});

const spec = object('The rules.', {
  match: policyMatch,
  'failurePolicy?': oneOf(
    'What the API server does when it cannot reach Gatehouse: refuse the request (Fail) or let it pass (Ignore).',
    ['Fail', 'Ignore'],
    { default: 'Fail' },
  ),
  'timeoutSeconds?': integer('How long the API server waits for an answer, in seconds.', {
    minimum: 1,
    maximum: 30,
    default: 5,
  }),
  'enforcement?': oneOf(
    'What a violation leads to: a refusal, a warning to the user, or only an annotation in the audit log.',
    ['Deny', 'Warn', 'Audit'],
    { default: 'Deny' },
  ),
  'audit?': boolean(
    'Whether what is stored already is checked too, hourly and whenever the policy changes.',
    { default: true },
  ),
  'params?': params,
  'variables?': mapList('Values for expressions, in their order.', 'name', variable, { maxItems: 64 }),
  'defaults?': policyDefaults,
  'mutations?': policyMutations,
  'validate?': policyValidate,
  'warnings?': array('Warnings to users.', warning, { maxItems: 32 }),
  'auditAnnotations?': mapList('Notes in the audit log.', 'key', auditAnnotation, { maxItems: 20 }),
  'exceptions?': mapList('Who or what the checks leave alone, and until when.', 'name', exception, {
    maxItems: 64,
  }),
  'owners?': policyOwners,
  'restore?': policyRestore,
  'initiallyDeferred?': initiallyDeferred,
});

const status = object('Written by Gatehouse.', {
  'violations?': object('What the audit of stored objects found.', {
    total: integer('Violations among the objects that are stored.', { minimum: 0 }),
    'objects?': integer('Objects with at least one of them.', { minimum: 0 }),
    'checked?': integer('Objects that were looked at.', { minimum: 0 }),
    'checkedAt?': string('When the audit ended.', { format: 'date-time' }),
    'generation?': integer('The generation of the policy that was checked.', { format: 'int64' }),
    'message?': string('Why there is no complete count, if there is none.'),
  }),
  'conditions?': conditionsSchema(
    '`Ready` (it compiles and is in force), `WebhooksInstalled` (the API server asks Gatehouse)',
  ),
  'inForce?': object('The version that is enforced. It stays when a newer one does not compile.', {
    generation: integer('The generation of the policy that is enforced.', { format: 'int64' }),
    spec: anyObject<object>('Its rules: what replicas enforce while a newer generation does not compile.'),
  }),
});

/** The schema of an AdmissionPolicy without `apiVersion`, `kind` and `metadata`. */
export const admissionPolicySchema = object(
  'Rules for objects of other kinds: defaults, mutations, foreign keys, unique values, conditions.',
  { spec, 'status?': status },
);

export type AdmissionPolicySpec = TypeOf<typeof spec>;
export type AdmissionPolicyStatus = TypeOf<typeof status>;
export type PolicyParams = TypeOf<typeof params>;
export type PolicyVariable = TypeOf<typeof variable>;
export type AdmissionPolicy = KubeObjectOf<typeof admissionPolicySchema>;
