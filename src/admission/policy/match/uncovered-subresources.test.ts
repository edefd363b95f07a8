import { expect, test } from 'vitest';

import { compiled } from '../../../../test/support/runtime/fixtures.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { knownKinds } from './subresources.ts';
import { uncoveredSubresources } from './uncovered-subresources.ts';

const PRIVILEGED = {
  rules: [{ name: 'no-host-network', expression: '!has(object.spec.hostNetwork)' }],
};
const REPLICAS = { rules: [{ name: 'few', expression: 'object.spec.replicas < 4' }] };

const gaps = (
  match: Partial<AdmissionPolicySpec['match']>,
  validate: AdmissionPolicySpec['validate'] = PRIVILEGED,
  variables: AdmissionPolicySpec['variables'] = [],
) =>
  uncoveredSubresources(
    compiled({ match: { apiGroups: [''], resources: ['pods'], ...match }, validate, variables }),
    [],
  ).flatMap(patternsIn);
const patternsIn = (message: string) =>
  /(?:add|policy for) (.+?) (?:to|with) /.exec(message)?.[1]?.split(', ') ?? [];

const METADATA = ['pods/status', 'pods/binding', 'bindings'];
const CONTAINERS = { rules: [{ name: 'few', expression: 'object.spec.containers.size() < 3' }] };

test.each([
  ['Pods alone', {}, ['pods/ephemeralcontainers', 'pods/resize']],
  ['all subresources are there', { resources: ['pods/*'] }, []],
  ['only creation', { operations: ['CREATE'] }, ['pods/ephemeralcontainers', 'pods/resize']],
  ['deletion', { operations: ['DELETE'] }, ['pods/eviction']],
  ['another kind', { resources: ['configmaps'] }, []],
] as const)('subresources of Pods that a policy misses: %s', (_, match, wanted) => {
  expect(gaps(match as Partial<AdmissionPolicySpec['match']>, CONTAINERS)).toEqual(wanted);
});

test.each<[string, string[]]>([
  ['!has(object.spec.hostNetwork)', []],
  ['object.metadata.name != "x"', []],
  ['object.metadata.labels.team == "a"', METADATA],
  ['oldObject.metadata.?annotations[?"a"].orValue("") == ""', METADATA],
  ['dyn(object).metadata.labels.team == "a"', METADATA],
  ['object == oldObject', ['pods/ephemeralcontainers', 'pods/resize', ...METADATA]],
  ['object.spec.nodeName != "x"', ['pods/binding', 'bindings']],
])('a policy with the rule %s misses what changes these fields of Pods', (expression, wanted) => {
  expect(gaps({}, { rules: [{ name: 'one', expression }] }).sort()).toEqual(wanted.toSorted());
});

test.each<[string, Partial<AdmissionPolicySpec['match']>, AdmissionPolicySpec['validate']]>([
  ['an immutable path', {}, { immutable: ['metadata.labels["team"]'] }],
  ['a schema', {}, { schema: { properties: { metadata: { required: ['labels'] } } } }],
  ['an object selector', { objectSelector: { matchLabels: { team: 'a' } } }, PRIVILEGED],
  [
    'a condition',
    { matchConditions: [{ name: 'a', expression: 'has(object.metadata.labels)' }] },
    PRIVILEGED,
  ],
])('%s that reads labels of Namespaces needs status and finalize', (_, match, validate) => {
  const resources = ['namespaces'];
  expect(gaps({ ...match, resources }, validate).sort()).toEqual([
    'namespaces/finalize',
    'namespaces/status',
  ]);
  const all = ['namespaces', 'namespaces/status', 'namespaces/finalize'];
  expect(gaps({ ...match, resources: all }, validate)).toEqual([]);
});

test('a policy about replicas needs the scale subresource', () => {
  const deployments = { apiGroups: ['apps'], resources: ['deployments'] };
  expect(gaps(deployments, REPLICAS)).toEqual(['deployments/scale']);
  expect(gaps({ ...deployments, resources: ['deployments', 'deployments/scale'] }, REPLICAS)).toEqual([]);
  expect(gaps({ ...deployments, operations: ['CREATE'] }, REPLICAS)).toEqual([]);
  expect(gaps(deployments)).toEqual([]);
});

test.each([
  ['object.spec.tasksMax < 4', ['connectors/scale']],
  ['object.spec.replicas < 4', []],
])('the definition of a custom kind says what scale changes: %s', (expression, wanted) => {
  const match = { apiGroups: ['infra.example.com'], resources: ['connectors', 'gates'] };
  const kind = { group: 'infra.example.com', resource: 'connectors' };
  const { scales } = knownKinds([[{ ...kind, schema: {}, scale: { specReplicasPath: '.spec.tasksMax' } }]]);
  const policy = { ...compiled({ match, validate: { rules: [{ name: 'few', expression }] } }), scales };
  expect(uncoveredSubresources(policy, []).flatMap(patternsIn)).toEqual(wanted);
});

test.each([
  ['object.spec.replicas', ['deployments/scale']],
  ['object.spec.minReadySeconds', []],
])('a policy that reads %s through two variables', (expression, wanted) => {
  const deployments = { apiGroups: ['apps'], resources: ['deployments'] };
  const variables = [
    { name: 'unused', expression: 'object.spec.replicas' },
    { name: 'count', expression },
    { name: 'few', expression: 'variables.count < 4' },
  ];
  const validate = { rules: [{ name: 'few', expression: 'variables.few' }] };
  expect(gaps(deployments, validate, variables)).toEqual(wanted);
});

test.each<AdmissionPolicySpec['validate']>([
  { immutable: ['spec'] },
  { rules: [{ name: 'fixed', expression: 'object.spec == oldObject.spec' }] },
  { rules: [{ name: 'fixed', expression: '!(oldObject.spec != object.spec)' }] },
])('a policy about the whole spec needs the scale subresource: %j', (validate) => {
  expect(gaps({ apiGroups: ['apps'], resources: ['deployments'] }, validate)).toEqual(['deployments/scale']);
});

test('another policy can govern scale and evictions, but not subresources that carry the Pod', () => {
  const policy = (match: AdmissionPolicySpec['match'], validate = CONTAINERS) =>
    compiled({ match, validate });
  const pods = policy({ apiGroups: [''], resources: ['pods'], operations: ['UPDATE', 'DELETE'] });
  const evictions = policy({ apiGroups: [''], resources: ['pods/eviction'], operations: ['CREATE'] });
  const resize = policy({ apiGroups: [''], resources: ['pods/*'], operations: ['UPDATE'] });
  const elsewhere = policy({ apiGroups: ['apps'], resources: ['pods/eviction'], operations: ['CREATE'] });
  expect(uncoveredSubresources(pods, [elsewhere])).toHaveLength(3);
  expect(uncoveredSubresources(pods, [pods, evictions, resize])).toEqual([
    'requests for pods/ephemeralcontainers change spec.ephemeralContainers without asking this policy: add pods/ephemeralcontainers to match.resources and UPDATE to match.operations',
    'requests for pods/resize change spec.containers.*.resources without asking this policy: add pods/resize to match.resources and UPDATE to match.operations',
  ]);
});
