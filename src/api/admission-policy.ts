import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
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
  optional,
  string,
  type TypeOf,
} from './schema.ts';

const params = object(
  {
    apiGroup: apiGroup({ description: 'The API group of the object; empty for the core group.' }),
    resource: string({ description: 'Its plural, e.g. `configmaps`.', minLength: 1 }),
    name: string({ description: 'Its name.', minLength: 1 }),
    namespace: optional(
      string({
        description:
          'Its namespace, if it has one. Absent for a namespaced kind: the namespace of the object checked.',
      }),
    ),
    whenMissing: optional(
      oneOf(['Deny', 'Allow'], {
        description:
          'What happens while there is no such object: as if every rule that reads params failed, or held.',
        default: 'Deny',
      }),
    ),
  },
  { description: 'An object that expressions see as params, e.g. a ConfigMap with limits.' },
);

const variable = object(
  {
    name: string({
      description: 'Expressions see it as variables.<name>.',
      minLength: 1,
      maxLength: 63,
      pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
    }),
    expression: string({
      description: 'CEL; computed at most once a request, when it is needed.',
      minLength: 1,
    }),
  },
  { description: 'A value that several expressions use.' },
);

const warning = object(
  {
    condition: optional(
      string({ description: 'CEL; the warning is given where it is true. Absent: always.', minLength: 1 }),
    ),
    message: optional(string({ description: 'The warning; this or messageExpression.' })),
    messageExpression: optional(string({ description: 'CEL that makes the warning.', minLength: 1 })),
  },
  { description: 'A warning that kubectl shows, which refuses nothing.' },
);

const auditAnnotation = object(
  {
    key: string({
      description: 'The key; the API server puts the name of the webhook before it.',
      minLength: 1,
      maxLength: 63,
      pattern: '^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$',
    }),
    valueExpression: string({
      description: 'CEL that makes the value; null or an empty text leaves it out.',
      minLength: 1,
    }),
  },
  { description: 'A note in the audit log.' },
);

const exception = object(
  {
    name: string({
      description: 'The name of the exception, for the audit log.',
      minLength: 1,
      maxLength: 63,
    }),
    reason: string({ description: 'Why there is one, for those who read the policy later.', minLength: 1 }),
    expiresAt: optional(string({ description: 'When it ends. Absent: never.', format: 'date-time' })),
    users: optional(
      array(string({ description: 'A user name; a trailing * matches any suffix.' }), {
        description: 'Whose requests.',
      }),
    ),
    groups: optional(
      array(string({ description: 'A group.' }), { description: 'Whose requests, by group.' }),
    ),
    namespaces: optional(
      array(string({ description: 'A namespace; a trailing * matches any suffix.' }), {
        description: 'Objects in which namespaces.',
      }),
    ),
    names: optional(
      array(string({ description: 'A name; a trailing * matches any suffix.' }), {
        description: 'The names of the objects.',
      }),
    ),
    objectSelector: optional(
      anyObject<LabelSelector>({
        description: 'Objects with which labels. Not a security boundary: users can label their way out.',
      }),
    ),
    checks: optional(
      array(
        string({
          description:
            'schema, immutable, references, unique, rules, or the name of a reference, unique rule or rule.',
        }),
        {
          description: 'Which checks are left out. Absent: all.',
        },
      ),
    ),
  },
  { description: 'A case that the checks leave alone: all that is said here has to hold.' },
);

const spec = object(
  {
    match: policyMatch,
    failurePolicy: optional(
      oneOf(['Fail', 'Ignore'], {
        description:
          'What the API server does when it cannot reach Gatehouse: refuse the request (Fail) or let it pass (Ignore).',
        default: 'Fail',
      }),
    ),
    timeoutSeconds: optional(
      integer({
        description: 'How long the API server waits for an answer, in seconds.',
        minimum: 1,
        maximum: 30,
        default: 5,
      }),
    ),
    enforcement: optional(
      oneOf(['Deny', 'Warn', 'Audit'], {
        description:
          'What a violation leads to: a refusal, a warning to the user, or only an annotation in the audit log.',
        default: 'Deny',
      }),
    ),
    audit: optional(
      boolean({
        description: 'Whether what is stored already is checked too, hourly and whenever the policy changes.',
        default: true,
      }),
    ),
    params: optional(params),
    variables: optional(
      mapList(variable, ['name'], { description: 'Values for expressions, in their order.', maxItems: 64 }),
    ),
    defaults: optional(policyDefaults),
    mutations: optional(policyMutations),
    validate: optional(policyValidate),
    warnings: optional(array(warning, { description: 'Warnings to users.', maxItems: 32 })),
    auditAnnotations: optional(
      mapList(auditAnnotation, ['key'], { description: 'Notes in the audit log.', maxItems: 20 }),
    ),
    exceptions: optional(
      mapList(exception, ['name'], {
        description: 'Who or what the checks leave alone, and until when.',
        maxItems: 64,
      }),
    ),
    owners: optional(policyOwners),
    restore: optional(policyRestore),
    initiallyDeferred: optional(initiallyDeferred),
  },
  { description: 'The rules.' },
);

const status = object(
  {
    violations: optional(
      object(
        {
          total: integer({ description: 'Violations among the objects that are stored.', minimum: 0 }),
          objects: optional(integer({ description: 'Objects with at least one of them.', minimum: 0 })),
          checked: optional(integer({ description: 'Objects that were looked at.', minimum: 0 })),
          checkedAt: optional(string({ description: 'When the audit ended.', format: 'date-time' })),
          generation: optional(
            integer({ description: 'The generation of the policy that was checked.', format: 'int64' }),
          ),
          message: optional(string({ description: 'Why there is no complete count, if there is none.' })),
        },
        { description: 'What the audit of stored objects found.' },
      ),
    ),
    conditions: optional(
      conditionsSchema(
        '`Ready` (it compiles and is in force), `WebhooksInstalled` (the API server asks Gatehouse)',
      ),
    ),
    inForce: optional(
      object(
        {
          generation: integer({
            description: 'The generation of the policy that is enforced.',
            format: 'int64',
          }),
          spec: anyObject<object>({
            description: 'Its rules: what replicas enforce while a newer generation does not compile.',
          }),
        },
        { description: 'The version that is enforced. It stays when a newer one does not compile.' },
      ),
    ),
  },
  { description: 'Written by Gatehouse.' },
);

/** The schema of an AdmissionPolicy without `apiVersion`, `kind` and `metadata`. */
export const admissionPolicySchema = object(
  { spec, status: optional(status) },
  {
    description:
      'Rules for objects of other kinds: defaults, mutations, foreign keys, unique values, conditions.',
  },
);

export type AdmissionPolicySpec = TypeOf<typeof spec>;
export type AdmissionPolicyStatus = TypeOf<typeof status>;
export type PolicyParams = TypeOf<typeof params>;
export type PolicyVariable = TypeOf<typeof variable>;

export interface AdmissionPolicy extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: AdmissionPolicySpec;
  readonly status?: AdmissionPolicyStatus;
}
