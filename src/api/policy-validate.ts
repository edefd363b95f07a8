/** What an object has to satisfy: `spec.validate` of an AdmissionPolicy. */
import { FIELD_PATH } from './policy-field.ts';
import {
  anyObject,
  apiGroup,
  array,
  boolean,
  mapList,
  object,
  oneOf,
  optional,
  string,
  type TypeOf,
} from './schema.ts';

const NAME = {
  minLength: 1,
  maxLength: 63,
  pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
} as const;

const reference = object(
  {
    name: string({
      description:
        'The name of the reference, for messages, metrics and reports; rules see the target as refs.<name>.',
      ...NAME,
    }),
    path: string({ description: `The field that holds the name of the target. ${FIELD_PATH}`, minLength: 1 }),
    namespacePath: optional(
      string({
        description:
          'The field that holds the namespace of a namespaced target. Absent: the namespace of the object itself.',
      }),
    ),
    optional: optional(
      boolean({
        description:
          'Whether the field may be absent, null or empty. If not, an object without a target is refused. Absent: it may.',
      }),
    ),
    target: object(
      {
        apiGroup: apiGroup({ description: 'The API group of the target; empty for the core group.' }),
        resource: string({ description: 'The plural of the target, e.g. `datacenters`.', minLength: 1 }),
      },
      { description: 'What the field names.' },
    ),
    onTargetDelete: optional(
      oneOf(['Allow', 'Restrict'], {
        description:
          'Whether a target may be deleted while an object still names it (Allow), or not (Restrict). Absent: Allow.',
      }),
    ),
  },
  { description: 'A foreign key: the object that the field names has to exist.' },
);

const unique = object(
  {
    name: string({ description: 'The name of the rule, for messages, metrics and claims.', ...NAME }),
    paths: array(string({ description: FIELD_PATH, minLength: 1 }), {
      description:
        'The fields that together are held by one object only. An object in which one of them is absent claims nothing; [*] claims each element.',
      minItems: 1,
      maxItems: 8,
    }),
    scope: optional(
      oneOf(['Cluster', 'Namespace'], {
        description:
          'Among which objects: all of the kind (Cluster), or those of the same namespace (Namespace). Absent: Cluster.',
      }),
    ),
  },
  { description: 'Values that no two objects share.' },
);

const rule = object(
  {
    name: optional(string({ description: 'The name of the rule, for messages and metrics.', ...NAME })),
    expression: string({
      description:
        'CEL that is true for what is right. It sees object, oldObject, request, namespaceObject, params, refs.<name> and variables.<name>.',
      minLength: 1,
    }),
    message: optional(string({ description: 'What to tell users otherwise: what is wrong and what to do.' })),
    messageExpression: optional(
      string({ description: 'CEL that makes the message. Where it fails or is empty, message holds.' }),
    ),
    reason: optional(
      oneOf(['Unauthorized', 'Forbidden', 'Invalid', 'RequestEntityTooLarge'], {
        description: 'The reason in the status of the refusal, as in ValidatingAdmissionPolicy.',
      }),
    ),
    fieldPath: optional(
      string({ description: `The field that is to blame, for the causes of the refusal. ${FIELD_PATH}` }),
    ),
  },
  { description: 'A condition in CEL.' },
);

export const policyValidate = object(
  {
    schema: optional(
      anyObject<object>({
        description:
          'JSON Schema 2020-12 for the whole object, beyond what a structural schema can say. Patterns are RE2.',
      }),
    ),
    immutable: optional(
      array(string({ description: FIELD_PATH, minLength: 1 }), {
        description: 'Fields that cannot be changed or removed once they are set.',
      }),
    ),
    immutableFromCreation: optional(
      array(string({ description: FIELD_PATH, minLength: 1 }), {
        description:
          'Fields that stay as they were at creation: also one that was absent cannot be set later.',
      }),
    ),
    references: optional(mapList(reference, ['name'], { description: 'Foreign keys.', maxItems: 64 })),
    unique: optional(mapList(unique, ['name'], { description: 'Values that are held once.', maxItems: 16 })),
    rules: optional(array(rule, { description: 'Conditions in CEL.', maxItems: 128 })),
  },
  { description: 'What an object has to satisfy.' },
);

export type ReferenceRule = TypeOf<typeof reference>;
export type UniqueRule = TypeOf<typeof unique>;
export type ValidationRule = TypeOf<typeof rule>;
