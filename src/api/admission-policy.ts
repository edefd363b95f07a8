import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import { policyMatch, type LabelSelector } from './policy-match.ts';
import { policyValidate } from './policy-validate.ts';
import {
  anyObject,
  array,
  boolean,
  countMap,
  integer,
  LABEL,
  mapList,
  object,
  oneOf,
  string,
  FIELD_PATH,
  anything,
  type KubeObjectOf,
  type TypeOf,
} from './schema.ts';
import { principal } from './principals.ts';

const policyRestore = object('Behaviour while a backup is restored.', {
  'references?': oneOf(
    'Whether a restorer may create objects with missing reference targets while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'unique?': oneOf(
    'Whether a restorer may create objects whose unique values another object holds, while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'schema?': oneOf('Whether a restorer may create objects that violate the schema.', ['Defer', 'Enforce'], {
    default: 'Enforce',
  }),
  'rules?': oneOf(
    'Whether a restorer may create objects that violate rules. Applies only to rules that read only the object.',
    ['Defer', 'Enforce'],
    { default: 'Enforce' },
  ),
  'onTargetDelete?': oneOf(
    'Whether a restorer may delete objects that are still referenced. Default: only if the window includes the operation DELETE.',
    ['Defer', 'Enforce'],
  ),
  'immutable?': oneOf(
    'Whether a restorer may change immutable fields. A sweep cannot check this: with Skip, only the audit log shows it.',
    ['Skip', 'Enforce'],
    { default: 'Enforce' },
  ),
  'mutations?': oneOf(
    'Whether mutations apply to writes of a restorer. Defaults always apply.',
    ['Apply', 'Skip'],
    { default: 'Skip' },
  ),
});

const policyOwners = object('Owner references of the governed objects.', {
  'preserve?': boolean(
    'Whether Gatehouse records owner references in the annotation gatehouse.dev/owner-references, to link them again ' +
      'after a restore that removes them.',
    { default: false },
  ),
});

const initiallyDeferred = object(
  'Deferred checks of references outside restores, like DEFERRABLE INITIALLY DEFERRED in SQL.',
  {
    principals: array(
      'Users who may write an object before its reference targets at any time, e.g. a GitOps controller.',
      principal,
      { minItems: 1, maxItems: 32 },
    ),
    'grace?': string(
      'How long after its creation an object may have missing targets before they are reported, as a Go duration.',
      { pattern: '^([0-9]+(h|m|s))+$', default: '5m' },
    ),
  },
);

const defaultRule = object('One default.', {
  path: string(`The field to set if it is absent. ${FIELD_PATH}`, { minLength: 1 }),
  'value?': anything('The value. Set either this or expression.'),
  'expression?': string(
    'CEL that returns the value. Variables: object, oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

const mutation = object('A change. It must be idempotent.', {
  name: string('The name of the mutation, for messages and metrics.', LABEL),
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

const policyDefaults = array('Values for absent fields.', defaultRule, { maxItems: 256 });

const policyMutations = mapList('Changes, applied in this order after the defaults.', 'name', mutation, {
  maxItems: 64,
});

const params = object('An object that expressions read as params, e.g. a ConfigMap with limits.', {
  apiGroup: string('The API group of the object; empty for the core group.'),
  resource: string('Its plural, e.g. `configmaps`.', { minLength: 1 }),
  name: string('Its name.', { minLength: 1 }),
  'namespace?': string('Its namespace. Default for a namespaced kind: the namespace of the checked object.'),
  'whenMissing?': oneOf(
    'The effect of a missing object: every rule that reads params fails (Deny) or passes (Allow), and mutations and defaults that read it are refused or skipped.',
    ['Deny', 'Allow'],
    { default: 'Deny' },
  ),
});

const variable = object('A value that several expressions share.', {
  name: string('Expressions read it as variables.<name>; other variables only if they are below it.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  }),
  expression: string('CEL; evaluated at most once per request, on first use.', { minLength: 1 }),
});

const warning = object('A warning that kubectl shows; the request is not refused.', {
  'condition?': string('CEL; the warning is returned if it is true. Default: always.', { minLength: 1 }),
  'message?': string('The warning. Set either this or messageExpression.'),
  'messageExpression?': string('CEL that returns the warning.', { minLength: 1 }),
});

const auditAnnotation = object('A note in the audit log.', {
  key: string('The key; the API server prefixes it with the name of the webhook.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$',
  }),
  valueExpression: string('CEL that returns the value; null or an empty string omits the annotation.', {
    minLength: 1,
  }),
});

const exception = object(
  'An exception from the checks. It applies to requests that match all of its fields.',
  {
    name: string('The name of the exception, for the audit log.', { minLength: 1, maxLength: 63 }),
    reason: string('Why the exception exists, for later readers of the policy.', { minLength: 1 }),
    'expiresAt?': string('When the exception ends. Default: never.', { format: 'date-time' }),
    'users?': array('Users whose requests match.', string('A user name; a trailing * matches any suffix.')),
    'groups?': array('Groups whose requests match.', string('A group.')),
    'namespaces?': array(
      'Namespaces of matching objects.',
      string('A namespace; a trailing * matches any suffix.'),
    ),
    'names?': array('Names of matching objects.', string('A name; a trailing * matches any suffix.')),
    'objectSelector?': anyObject<LabelSelector>(
      'Labels of matching objects. Not a security boundary: users can change labels.',
    ),
    'checks?': array(
      'The checks to skip. Default: all.',
      string(
        'schema, immutable, references, unique, rules, or the name of a reference, unique rule or rule.',
      ),
    ),
  },
);

const spec = object('The rules.', {
  match: policyMatch,
  'failurePolicy?': oneOf(
    'What the API server does when it cannot reach Gatehouse: refuse the request (Fail) or allow it (Ignore).',
    ['Fail', 'Ignore'],
    { default: 'Fail' },
  ),
  'timeoutSeconds?': integer('How long the API server waits for a response, in seconds.', {
    minimum: 1,
    maximum: 30,
    default: 5,
  }),
  'enforcement?': oneOf(
    'The effect of a violation: a refusal, a warning to the user, or only an annotation in the audit log.',
    ['Deny', 'Warn', 'Audit'],
    { default: 'Deny' },
  ),
  'audit?': boolean('Whether to check existing objects, hourly and after changes of the policy.', {
    default: true,
  }),
  'compile?': oneOf(
    'Auto: the API server itself enforces the checks that CEL can express, even while Gatehouse is down. Never: only the webhook enforces them. Requires --compile-policies, and Kubernetes 1.36 for defaults and mutations. Default: Auto.',
    ['Auto', 'Never'],
  ),
  'params?': params,
  'variables?': mapList('Values for expressions, evaluated in this order.', 'name', variable, {
    maxItems: 64,
  }),
  'defaults?': policyDefaults,
  'mutations?': policyMutations,
  'validate?': policyValidate,
  'warnings?': array('Warnings to users.', warning, { maxItems: 32 }),
  'auditAnnotations?': mapList('Notes in the audit log.', 'key', auditAnnotation, { maxItems: 20 }),
  'exceptions?': mapList('Requests that skip checks, and until when.', 'name', exception, { maxItems: 64 }),
  'policyExceptions?': oneOf(
    'Accept: PolicyExceptions can exempt objects of their namespaces, so users who can create PolicyExceptions there can bypass checks. Default: Refuse.',
    ['Refuse', 'Accept'],
  ),
  'owners?': policyOwners,
  'restore?': policyRestore,
  'initiallyDeferred?': initiallyDeferred,
});

const status = object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'violations?': object('Result of the audit of existing objects.', {
      total: integer('Number of violations among existing objects.', { minimum: 0 }),
      'objects?': integer('Number of objects with at least one violation.', { minimum: 0 }),
      'checked?': integer('Number of objects checked.', { minimum: 0 }),
      'checkedAt?': string('When the audit ended.', { format: 'date-time' }),
      'generation?': integer('The generation of the policy that was checked.', { format: 'int64' }),
      'byReference?': countMap('Number of violations by reference.'),
      'message?': string('Why the count is incomplete, if it is.'),
    }),
    'conditions?': conditionsSchema(
      '`Ready` (it compiles, and the API server calls Gatehouse for it), `Reconciling` (not ready; Gatehouse retries automatically), `Stalled` (not ready; a user must act), `WebhooksInstalled` (the API server calls Gatehouse), `KindsServed` (`False` if the API server does not serve all kinds that the policy governs), `SubresourcesCovered` (`False` if requests for subresources can change governed objects without a check), `ReadsReviewed` (`False` if the policy is older than the review of what its author can read), `DeletionsFinished` (`False` if objects still reference a deleted target on which Gatehouse acts), `ActionsPermitted` (`False` if Gatehouse lacks permission to delete or change these objects)',
    ),
    'compiled?': string('The checks that the API server itself enforces, and all checks, e.g. `2/3`.'),
    'enforcedBy?': array(
      'Who enforces each check, with --compile-policies.',
      object('One check.', {
        check: string('e.g. `rule no-password`.'),
        by: oneOf('The API server itself, or the webhook.', ['APIServer', 'Webhook']),
        'reason?': string('Why the API server does not enforce it.'),
      }),
    ),
    'confirmed?': object('What the API server is known to enforce. The webhook skips these checks.', {
      generation: integer('The generation of the AdmissionPolicy.', { format: 'int64' }),
      pairs: array(
        'The compiled policies.',
        object('A policy of the API server and its binding.', {
          name: string('The name of both.'),
          digest: string('The digest of their text.'),
          policy: string('The uid and the generation of the policy.'),
          binding: string('The uid and the generation of its binding.'),
        }),
      ),
    }),
    'inForce?': object(
      'The enforced version. It remains in force until a newer version compiles and its webhooks are installed.',
      {
        generation: integer('The generation of the enforced policy.', { format: 'int64' }),
        spec: anyObject<object>(
          'Its spec, which replicas enforce while a newer generation does not compile.',
        ),
        'record?': string('Proof that its author was permitted to read what it reads.'),
      },
    ),
  },
  NOT_OBSERVED,
);

export const admissionPolicySchema = object(
  'Rules for objects of other kinds: defaults, mutations, foreign keys, unique values, conditions.',
  { spec, 'status?': status },
);

export type AdmissionPolicySpec = TypeOf<typeof spec>;
export type AdmissionPolicyStatus = TypeOf<typeof status>;
export type AdmissionPolicy = KubeObjectOf<typeof admissionPolicySchema>;
