/** What Gatehouse changes in an object: `spec.defaults` and `spec.mutations` of an AdmissionPolicy. */
import { FIELD_PATH } from './policy-field.ts';
import { anything, array, mapList, object, oneOf, optional, string } from './schema.ts';

const defaultRule = object(
  {
    path: string({ description: `The field to fill where it is absent. ${FIELD_PATH}`, minLength: 1 }),
    value: optional(anything({ description: 'The value it gets; this or expression.' })),
    expression: optional(
      string({
        description:
          'CEL that makes the value; it sees object, oldObject, request, namespaceObject, params and variables.',
        minLength: 1,
      }),
    ),
  },
  { description: 'One default.' },
);

const mutation = object(
  {
    name: string({
      description: 'The name of the mutation, for messages and metrics.',
      minLength: 1,
      maxLength: 63,
      pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
    }),
    type: optional(
      oneOf(['Merge', 'JSONPatch'], {
        description:
          'What the expression yields: an object that is merged (RFC 7386: null removes; Merge), or a list of {op, path, value} (RFC 6902; JSONPatch). Absent: Merge.',
      }),
    ),
    condition: optional(
      string({
        description: 'CEL; the mutation is left out where it is false. Absent: always.',
        minLength: 1,
      }),
    ),
    expression: string({
      description:
        'CEL; it sees object as the mutations before left it, oldObject, request, namespaceObject, params and variables.',
      minLength: 1,
    }),
  },
  { description: 'A change. Applied to its own result it must change nothing.' },
);

export const policyDefaults = array(defaultRule, {
  description: 'Values for fields that are absent.',
  maxItems: 256,
});

export const policyMutations = mapList(mutation, ['name'], {
  description: 'Changes in their order, after the defaults.',
  maxItems: 64,
});
