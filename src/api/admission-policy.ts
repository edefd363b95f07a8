import type { KubernetesObject, ObjectMeta } from './meta.ts';
import { conditionsSchema } from './conditions.ts';
import {
  anyObject,
  anything,
  array,
  integer,
  mapList,
  object,
  oneOf,
  optional,
  string,
  type TypeOf,
} from './schema.ts';

/** As in the Kubernetes API (meta/v1 LabelSelector). */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

const FIELD_PATH =
  'A path such as `spec.datacenter`, `spec.disks[*].class` or `metadata.labels["example.com/rack"]`.';

const match = object(
  {
    apiGroups: array(string({ description: 'An API group; empty for the core group.' }), {
      description:
        'The API groups governed. Wildcards are refused: they would cover what the cluster needs to heal itself.',
      minItems: 1,
    }),
    apiVersions: optional(
      array(string({ description: 'An API version, or `*`.' }), {
        description: 'The versions in which requests are sent to Gatehouse.',
        minItems: 1,
        default: ['*'],
      }),
    ),
    resources: array(
      string({ description: 'A plural such as `servers`, or a subresource such as `servers/status`.' }),
      {
        description: 'The resources governed.',
        minItems: 1,
      },
    ),
    operations: optional(
      array(oneOf(['CREATE', 'UPDATE', 'DELETE', 'CONNECT'], { description: 'An operation.' }), {
        description: 'The operations governed.',
        minItems: 1,
        default: ['CREATE', 'UPDATE'],
      }),
    ),
    namespaceSelector: optional(
      anyObject<LabelSelector>({
        description: 'Only objects in namespaces with these labels. Empty: all namespaces.',
      }),
    ),
    objectSelector: optional(
      anyObject<LabelSelector>({
        description:
          'Only objects with these labels, before or after the change. Not a security boundary: users can label their way out.',
      }),
    ),
    matchConditions: optional(
      mapList(
        object(
          {
            name: string({ description: 'A name for messages and metrics.', minLength: 1 }),
            expression: string({ description: 'CEL, evaluated by the API server.', minLength: 1 }),
          },
          { description: 'A condition.' },
        ),
        ['name'],
        {
          description:
            'CEL conditions that the API server evaluates before it asks (Kubernetes 1.28 and newer).',
          maxItems: 64,
        },
      ),
    ),
  },
  { description: 'Which requests the policy governs.' },
);

const defaultRule = object(
  {
    path: string({ description: `The field to fill where it is absent. ${FIELD_PATH}`, minLength: 1 }),
    value: anything({ description: 'The value it gets.' }),
  },
  { description: 'One default.' },
);

const reference = object(
  {
    name: string({
      description: 'The name of the reference, for messages, metrics and reports.',
      minLength: 1,
      maxLength: 63,
      pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
    }),
    path: string({ description: `The field that holds the name of the target. ${FIELD_PATH}`, minLength: 1 }),
    namespacePath: optional(
      string({
        description:
          'The field that holds the namespace of a namespaced target. Absent: the namespace of the object itself.',
      }),
    ),
    target: object(
      {
        apiGroup: string({ description: 'The API group of the target; empty for the core group.' }),
        resource: string({ description: 'The plural of the target, e.g. `datacenters`.', minLength: 1 }),
      },
      { description: 'What the field names.' },
    ),
  },
  { description: 'A foreign key: the object that the field names has to exist.' },
);

const validate = object(
  {
    immutable: optional(
      array(string({ description: FIELD_PATH, minLength: 1 }), {
        description: 'Fields that cannot be changed or removed once they are set.',
      }),
    ),
    references: optional(mapList(reference, ['name'], { description: 'Foreign keys.', maxItems: 64 })),
  },
  { description: 'What an object has to satisfy.' },
);

const spec = object(
  {
    match,
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
    defaults: optional(
      array(defaultRule, { description: 'Values for fields that are absent.', maxItems: 256 }),
    ),
    validate: optional(validate),
    restore: optional(
      object(
        {
          references: optional(
            oneOf(['Defer', 'Enforce'], {
              description:
                'Whether a restorer may create objects whose references have no target yet, while a RestoreWindow is open.',
              default: 'Defer',
            }),
          ),
        },
        { description: 'What holds while a backup is being restored.' },
      ),
    ),
  },
  { description: 'The rules.' },
);

const status = object(
  {
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
  { description: 'Rules for objects of other kinds: defaults, foreign keys, immutable fields.' },
);

export type AdmissionPolicySpec = TypeOf<typeof spec>;
export type AdmissionPolicyStatus = TypeOf<typeof status>;
export type ReferenceRule = TypeOf<typeof reference>;
export type PolicyMatch = TypeOf<typeof match>;

export interface AdmissionPolicy extends KubernetesObject {
  readonly metadata: ObjectMeta;
  readonly spec: AdmissionPolicySpec;
  readonly status?: AdmissionPolicyStatus;
}
