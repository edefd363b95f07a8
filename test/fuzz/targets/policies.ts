/** Policies that the API server accepts, because they fit the schema of the CRD. They may be meaningless. */
import fc from 'fast-check';

import { admissionPolicySchema } from '../../../src/api/admission-policy.ts';
import { compileSpec } from '../../support/admission/policy.ts';
import { parsePath, InvalidPath, formatPath, fill, valuesAt } from '../../../src/json/field-path.ts';
import { isEqual, type JsonObject } from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold, holdProblems, storedAs } from '../target.ts';

const SPECS: readonly JsonObject[] = [
  {
    match: {
      apiGroups: ['infra.example.com'],
      resources: ['servers'],
      operations: ['CREATE', 'UPDATE', 'DELETE'],
    },
    defaults: [
      { path: 'spec.tier', value: 'standard' },
      { path: 'spec.x', expression: 'object.spec.units + 1' },
    ],
    mutations: [{ name: 'm', condition: 'true', expression: "{'spec': {'a': 1}}" }],
    validate: {
      schema: {
        properties: { spec: { type: 'object', required: ['a'], properties: { a: { pattern: '^a$' } } } },
      },
      immutable: ['spec.a', 'metadata.labels["a.b/c"]'],
      immutableFromCreation: ['spec.b'],
    },
  },
  {
    match: { apiGroups: [''], resources: ['configmaps'], namespaceSelector: { matchLabels: { a: 'b' } } },
    variables: [{ name: 'v', expression: 'object.data.size()' }],
    params: { kind: 'ConfigMap', apiVersion: 'v1', name: 'limits' },
    validate: {
      references: [
        {
          name: 'class',
          path: 'spec.disks[*].class',
          namespacePath: 'spec.disks[*].namespace',
          target: { apiGroup: 'infra.example.com', resource: 'classes' },
          onTargetDelete: 'Restrict',
        },
      ],
      unique: [{ name: 'serial', fields: ['spec.serial', 'spec.disks[*].serial'], scope: 'Namespace' }],
      rules: [
        { name: 'r', expression: 'variables.v < 3', messageExpression: "'too many'", fieldPath: '.data' },
      ],
    },
    warnings: [{ condition: 'true', messageExpression: "'w'" }],
    auditAnnotations: [{ key: 'k', valueExpression: "'v'" }],
    enforcement: 'Warn',
    exceptions: [{ name: 'e', until: '2027-01-01T00:00:00Z', users: ['alice'] }],
  },
];

export const policies = fuzzTarget('policy', 40, mutatedObject(SPECS), (input) => {
  const spec = storedAs(input, admissionPolicySchema.properties.spec);
  if (spec === undefined) return;
  const result = compileSpec(spec);
  if (result.kind === 'rejected') holdProblems(result.problems);
});

const PATHS = [
  'spec.disks[*].class',
  'metadata.labels["example.com/a~b/c"]',
  'spec.nested.list[0][*]',
  'spec.slots[3]',
  'status.phase',
];

const places = fc.tuple(mutatedText(PATHS), mutatedObject([SERVER]));

export const paths = fuzzTarget('field path', 80, places, ([text, object]) => {
  const path = answerOf(
    () => parsePath(text),
    (error) => error instanceof InvalidPath,
  );
  if (path === undefined) return;
  for (const { keys } of valuesAt(object, path).slice(0, 20))
    hold(formatPath(keys) !== '', 'a place without a name');
  const before = toJsonText(object);
  const filled = fill(object, path, 'x');
  hold(fill(filled, path, 'x') === filled, 'a default replaces a value');
  hold(toJsonText(object) === before, 'a default changed its input');
  const unshared = Object.keys(object).filter(
    (key) => filled[key] !== object[key] && isEqual(filled[key], object[key]),
  );
  hold(unshared.length === 0, () => `unchanged parts were copied: ${unshared.join()}`);
});
