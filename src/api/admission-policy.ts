import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import type { LabelSelector } from '../json/label-selector.ts';
import { policyMatch } from './policy-match.ts';
import { policyValidate } from './policy-validate.ts';
import * as t from './schema.ts';
import { principal } from './principals.ts';

const policyRestore = t.object('Behaviour while a backup is restored.', {
  'references?': t.oneOf(
    'Whether a restorer may create objects with missing reference targets while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'unique?': t.oneOf(
    'Whether a restorer may create objects whose unique values another object holds, while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'schema?': t.oneOf('Whether a restorer may create objects that violate the schema.', ['Defer', 'Enforce'], {
    default: 'Enforce',
  }),
  'rules?': t.oneOf(
    'Whether a restorer may create objects that violate rules. Applies only to rules that read only the object.',
    ['Defer', 'Enforce'],
    { default: 'Enforce' },
  ),
  'onTargetDelete?': t.oneOf(
    'Whether a restorer may delete objects that are still referenced. Default: only if the window includes the operation DELETE.',
    ['Defer', 'Enforce'],
  ),
  'immutable?': t.oneOf(
    'Whether a restorer may change immutable fields. A sweep cannot check this: with Skip, only the audit log shows it.',
    ['Skip', 'Enforce'],
    { default: 'Enforce' },
  ),
  'mutations?': t.oneOf(
    'Whether mutations apply to writes of a restorer. Defaults always apply.',
    ['Apply', 'Skip'],
    { default: 'Skip' },
  ),
  'uids?': t.array(
    'Fields of spec that hold the uid of another object, e.g. `spec.items[*].ref.uid`. [*] also matches each value of a map. ' +
      'After a restore, Gatehouse replaces the uid of a recorded owner, or of the object that the fields apiVersion, kind, name and namespace next to a field uid name. It reports all others.',
    t.string('A field path.', { minLength: 1 }),
    { maxItems: 32 },
  ),
});

const policyOwners = t.object('Owner references of the governed objects.', {
  'preserve?': t.boolean(
    'Whether Gatehouse records owner references in the annotation gatehouse.dev/owner-references, to link them again ' +
      'after a restore that removes them.',
    { default: false },
  ),
});

const initiallyDeferred = t.object(
  'Deferred checks of references outside restores, like DEFERRABLE INITIALLY DEFERRED in SQL.',
  {
    principals: t.array(
      'Users who may write an object before its reference targets at any time, e.g. a GitOps controller.',
      principal,
      { minItems: 1, maxItems: 32 },
    ),
    'grace?': t.string(
      'How long after its creation an object may have missing targets before they are reported, as a Go duration.',
      { pattern: '^([0-9]+(h|m|s))+$', default: '5m' },
    ),
  },
);

const defaultRule = t.object('One default.', {
  path: t.string(`The field to set if it is absent. ${t.FIELD_PATH}`, { minLength: 1 }),
  'value?': t.anything('The value. Set either this or expression.'),
  'expression?': t.string(
    'CEL that returns the value. Variables: object, oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

const mutation = t.object('A change. It must be idempotent.', {
  name: t.string('The name of the mutation, for messages and metrics.', t.LABEL),
  'type?': t.oneOf(
    'Type of the result: an object to merge (Merge: null removes a field, and lists merge as in server-side apply), or a list of {op, path, value} (JSONPatch, RFC 6902). Default: Merge.',
    ['Merge', 'JSONPatch'],
  ),
  'condition?': t.string('CEL; the mutation is skipped if it is false. Default: always applied.', {
    minLength: 1,
  }),
  expression: t.string(
    'CEL. Variables: object (as left by previous mutations), oldObject, request, namespaceObject, params and variables.',
    { minLength: 1 },
  ),
});

const policyDefaults = t.array('Values for absent fields.', defaultRule, { maxItems: 256 });

const policyMutations = t.mapList('Changes, applied in this order after the defaults.', 'name', mutation, {
  maxItems: 64,
});

const params = t.object('An object that expressions read as params, e.g. a ConfigMap with limits.', {
  apiGroup: t.string('The API group of the object; empty for the core group.'),
  resource: t.string('Its plural, e.g. `configmaps`.', { minLength: 1 }),
  name: t.string('Its name.', { minLength: 1 }),
  'namespace?': t.string(
    'Its namespace. Default for a namespaced kind: the namespace of the checked object.',
  ),
  'whenMissing?': t.oneOf(
    'The effect of a missing object: every rule that reads params fails (Deny) or passes (Allow), and mutations and defaults that read it are refused or skipped.',
    ['Deny', 'Allow'],
    { default: 'Deny' },
  ),
});

const variable = t.object('A value that several expressions share.', {
  name: t.string('Expressions read it as variables.<name>; other variables only if they are below it.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  }),
  expression: t.string('CEL; evaluated at most once per request, on first use.', { minLength: 1 }),
});

const warning = t.object('A warning that kubectl shows; the request is not refused.', {
  'condition?': t.string('CEL; the warning is returned if it is true. Default: always.', { minLength: 1 }),
  'message?': t.string('The warning. Set either this or messageExpression.'),
  'messageExpression?': t.string('CEL that returns the warning.', { minLength: 1 }),
});

const auditAnnotation = t.object('A note in the audit log.', {
  key: t.string('The key; the API server prefixes it with the name of the webhook.', {
    minLength: 1,
    maxLength: 63,
    pattern: '^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$',
  }),
  valueExpression: t.string('CEL that returns the value; null or an empty string omits the annotation.', {
    minLength: 1,
  }),
});

const exception = t.object(
  'An exception from the checks. It applies to requests that match all of its fields.',
  {
    name: t.string('The name of the exception, for the audit log.', { minLength: 1, maxLength: 63 }),
    reason: t.string('Why the exception exists, for later readers of the policy.', { minLength: 1 }),
    'expiresAt?': t.string('When the exception ends. Default: never.', { format: 'date-time' }),
    'users?': t.array(
      'Users whose requests match.',
      t.string('A user name; a trailing * matches any suffix.'),
    ),
    'groups?': t.array('Groups whose requests match.', t.string('A group.')),
    'namespaces?': t.array(
      'Namespaces of matching objects.',
      t.string('A namespace; a trailing * matches any suffix.'),
    ),
    'names?': t.array('Names of matching objects.', t.string('A name; a trailing * matches any suffix.')),
    'objectSelector?': t.anyObject<LabelSelector>(
      'Labels of matching objects. Not a security boundary: users can change labels.',
    ),
    'checks?': t.array(
      'The checks to skip. Default: all.',
      t.string(
        'schema, immutable, references, unique, rules, or the name of a reference, unique rule or rule.',
      ),
    ),
  },
);

const spec = t.object('The rules.', {
  match: policyMatch,
  'failurePolicy?': t.oneOf(
    'What the API server does when it cannot reach Gatehouse: refuse the request (Fail) or allow it (Ignore).',
    ['Fail', 'Ignore'],
    { default: 'Fail' },
  ),
  'timeoutSeconds?': t.integer('How long the API server waits for a response, in seconds.', {
    minimum: 1,
    maximum: 30,
    default: 5,
  }),
  'enforcement?': t.oneOf(
    'The effect of a violation: a refusal, a warning to the user, or only an annotation in the audit log.',
    ['Deny', 'Warn', 'Audit'],
    { default: 'Deny' },
  ),
  'existingViolations?': t.oneOf(
    'Allow: an update passes a violated rule or schema keyword, with a warning, if the object already violated it and the update does not change what it reads. Only with enforcement: Deny. Default: Deny.',
    ['Allow', 'Deny'],
  ),
  'audit?': t.boolean('Whether to check existing objects, hourly and after changes of the policy.', {
    default: true,
  }),
  'compile?': t.oneOf(
    'Auto: the API server itself enforces the checks that CEL can express, even while Gatehouse is down. Never: only the webhook enforces them. Requires --compile-policies, and Kubernetes 1.36 for defaults and mutations. Default: Auto.',
    ['Auto', 'Never'],
  ),
  'params?': params,
  'variables?': t.mapList('Values for expressions, evaluated in this order.', 'name', variable, {
    maxItems: 64,
  }),
  'defaults?': policyDefaults,
  'mutations?': policyMutations,
  'validate?': policyValidate,
  'warnings?': t.array('Warnings to users.', warning, { maxItems: 32 }),
  'auditAnnotations?': t.mapList('Notes in the audit log.', 'key', auditAnnotation, { maxItems: 20 }),
  'exceptions?': t.mapList('Requests that skip checks, and until when.', 'name', exception, { maxItems: 64 }),
  'policyExceptions?': t.oneOf(
    'Accept: PolicyExceptions can exempt objects of their namespaces, so users who can create PolicyExceptions there can bypass checks. Default: Refuse.',
    ['Refuse', 'Accept'],
  ),
  'owners?': policyOwners,
  'restore?': policyRestore,
  'initiallyDeferred?': initiallyDeferred,
});

const status = t.object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'violations?': t.object('Result of the audit of existing objects.', {
      total: t.integer('Number of violations among existing objects.', { minimum: 0 }),
      'objects?': t.integer('Number of objects with at least one violation.', { minimum: 0 }),
      'checked?': t.integer('Number of objects checked.', { minimum: 0 }),
      'checkedAt?': t.string('When the audit ended.', { format: 'date-time' }),
      'generation?': t.integer('The generation of the policy that was checked.', { format: 'int64' }),
      'byReference?': t.countMap('Number of violations by reference.'),
      'message?': t.string('Why the count is incomplete, if it is.'),
    }),
    'conditions?': conditionsSchema(
      '`Ready` (it compiles, and the API server calls Gatehouse for it), `Reconciling` (not ready; Gatehouse retries automatically), `Stalled` (not ready; a user must act), `WebhooksInstalled` (the API server calls Gatehouse), `KindsServed` (`False` if the API server does not serve all kinds that the policy governs), `SubresourcesCovered` (`False` if requests for subresources can change governed objects without a check), `AppliedToUpdates` (`False` if defaults or mutations do not apply to updates, because their fields are immutable), `ConflictFree` (`False` if another policy writes the same field, or required references form a circle), `ReadsReviewed` (`False` if the policy is older than the review of what its author can read), `DeletionsFinished` (`False` if objects still reference a deleted target on which Gatehouse acts), `ActionsPermitted` (`False` if Gatehouse lacks permission to delete or change these objects)',
    ),
    'compiled?': t.string('The checks that the API server itself enforces, and all checks, e.g. `2/3`.'),
    'enforcedBy?': t.array(
      'Who enforces each check, with --compile-policies.',
      t.object('One check.', {
        check: t.string('e.g. `rule no-password`.'),
        by: t.oneOf('The API server itself, or the webhook.', ['APIServer', 'Webhook']),
        'reason?': t.string('Why the API server does not enforce it.'),
        'warnedGeneration?': t.integer(
          'The generation of the AdmissionPolicy in which the API server warned about its types. The webhook enforces it until the spec changes.',
          { format: 'int64' },
        ),
      }),
    ),
    'confirmed?': t.object('What the API server is known to enforce. The webhook skips these checks.', {
      generation: t.integer('The generation of the AdmissionPolicy.', { format: 'int64' }),
      pairs: t.array(
        'The compiled policies.',
        t.object('A policy of the API server and its binding.', {
          name: t.string('The name of both.'),
          digest: t.string('The digest of their text.'),
          policy: t.string('The uid and the generation of the policy.'),
          binding: t.string('The uid and the generation of its binding.'),
        }),
      ),
    }),
    'inForce?': t.object(
      'The enforced version. It remains in force until a newer version compiles and its webhooks are installed.',
      {
        generation: t.integer('The generation of the enforced policy.', { format: 'int64' }),
        spec: t.anyObject<object>(
          'Its spec, which replicas enforce while a newer generation does not compile.',
        ),
        'record?': t.string('Proof that its author was permitted to read what it reads.'),
      },
    ),
  },
  NOT_OBSERVED,
);

export const admissionPolicySchema = t.object(
  'Rules for objects of other kinds: defaults, mutations, foreign keys, unique values, conditions.',
  { spec, 'status?': status },
);

export type AdmissionPolicySpec = t.TypeOf<typeof spec>;
export type AdmissionPolicyStatus = t.TypeOf<typeof status>;
export type AdmissionPolicy = t.KubeObjectOf<typeof admissionPolicySchema>;
