import { expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import type { JsonObject } from '../../../json/json.ts';
import { compileSpec } from '../../../../test/support/admission/policy.ts';

const group = 'infra.example.com';
const schema: JsonObject = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      required: ['datacenter'],
      properties: {
        datacenter: { type: 'string' },
        backup: { type: 'string' },
        racks: { type: 'array', minItems: 1, items: { type: 'string' } },
        disks: {
          type: 'array',
          items: {
            type: 'object',
            required: ['class'],
            properties: { class: { type: 'string' }, pool: { type: 'string' } },
          },
        },
      },
    },
  },
};

function problemsOf(
  change: Partial<ReferenceRule>,
  validate: AdmissionPolicySpec['validate'] = {},
  match: AdmissionPolicySpec['match'] = { apiGroups: [group], resources: ['servers'] },
): readonly string[] {
  const target = { apiGroup: group, resource: 'datacenters' };
  const references = [{ name: 'r', path: 'spec.backup', target, ...change }];
  const spec = { match, validate: { ...validate, references } };
  const result = compileSpec(spec, 'servers', { schemas: [schema] });
  if (result.kind === 'compiled') return [];
  return result.problems.map(({ where, message }) => `${where}: ${message}`);
}

test.each<Partial<ReferenceRule>>([
  { onTargetDelete: 'Cascade' },
  { onTargetDelete: 'Cascade', path: 'spec.datacenter', optional: false },
  { onTargetDelete: 'SetNull' },
  { onTargetDelete: 'SetNull', path: 'spec.disks[*].pool' },
  { onTargetDelete: 'SetNull', path: 'metadata.labels["example.com/backup"]' },
  { onTargetDelete: 'SetDefault', path: 'spec.datacenter', defaultTarget: 'fra1' },
])('%j compiles', (rule) => {
  expect(problemsOf(rule)).toEqual([]);
});

test.each<[string, Partial<ReferenceRule>, string]>([
  [
    'the schema of the kind requires the field',
    { onTargetDelete: 'SetNull', path: 'spec.datacenter' },
    'removes spec.datacenter, and the schema requires it',
  ],
  [
    'the schema requires the field of a list element',
    { onTargetDelete: 'SetNull', path: 'spec.disks[*].class' },
    'removes spec.disks[*].class, and the schema requires it',
  ],
  [
    'the reference is required',
    { onTargetDelete: 'SetNull', optional: false },
    'optional: false requires it',
  ],
  ['the field is in the status', { onTargetDelete: 'SetNull', path: 'status.backup' }, 'outside of status'],
  [
    'there is no default',
    { onTargetDelete: 'SetDefault' },
    'spec.validate.references[0].defaultTarget: is missing: write the name of the target',
  ],
  [
    'the default cannot be a name',
    { onTargetDelete: 'SetDefault', defaultTarget: 'No Name' },
    '"No Name" cannot be the name of an object',
  ],
  [
    'nothing writes the default',
    { onTargetDelete: 'Cascade', defaultTarget: 'fra1' },
    'only with onTargetDelete: SetDefault',
  ],
])('a policy is refused if %s', (_when, rule, problem) => {
  expect(problemsOf(rule).join('\n')).toContain(problem);
});

test.each(['spec.backup', 'spec'])('a change of the immutable field %s is refused', (path) => {
  const rule = { onTargetDelete: 'SetDefault', defaultTarget: 'fra1' } as const;
  expect(problemsOf(rule, { immutable: [path] }).join()).toContain(`${path} is immutable`);
  expect(problemsOf(rule, { immutableFromCreation: [path] }).join()).toContain(`${path} is immutable`);
  expect(problemsOf(rule, { immutable: ['spec.datacenter'] })).toEqual([]);
});

test('the JSON Schema of the policy counts as well', () => {
  const own = { properties: { spec: { required: ['backup'] } } };
  expect(problemsOf({ onTargetDelete: 'SetNull' }, { schema: own }).join()).toContain(
    'the schema requires it',
  );
  const others = { properties: { metadata: { required: ['labels'] } } };
  expect(problemsOf({ onTargetDelete: 'SetNull' }, { schema: others })).toEqual([]);
});

test('no action changes permissions: the API server would compare them with those of Gatehouse', () => {
  const match = { apiGroups: ['rbac.authorization.k8s.io'], resources: ['clusterroles'] };
  // Without its last name, a rule permits all objects.
  const rule = { path: 'rules[*].resourceNames[*]' } as const;
  const of = (change: Partial<ReferenceRule>) => problemsOf({ ...rule, ...change }, {}, match).join();
  const problem = 'cannot change rbac.authorization.k8s.io';
  expect(of({ onTargetDelete: 'SetNull' })).toContain(`SetNull ${problem}`);
  expect(of({ onTargetDelete: 'SetDefault', defaultTarget: 'fra1' })).toContain(`SetDefault ${problem}`);
  expect(of({ onTargetDelete: 'Cascade' })).not.toContain(problem);
});
