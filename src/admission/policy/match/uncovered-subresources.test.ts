import { expect, test } from 'vitest';

import { compiled } from '../../../../test/support/runtime/fixtures.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
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
  ).map((message) => /(?:add|policy for) (\S+) /.exec(message)?.[1]);

test.each([
  ['Pods alone', {}, ['pods/ephemeralcontainers', 'pods/resize']],
  ['all subresources are there', { resources: ['pods/*'] }, []],
  [
    'only creation',
    { resources: ['pods/*'], operations: ['CREATE'] },
    ['pods/ephemeralcontainers', 'pods/resize'],
  ],
  ['deletion', { operations: ['DELETE'] }, ['pods/eviction']],
  ['another kind', { resources: ['configmaps'] }, []],
] as const)('subresources of Pods that a policy misses: %s', (_, match, wanted) => {
  expect(gaps(match as Partial<AdmissionPolicySpec['match']>)).toEqual(wanted);
});

test('a policy about replicas needs the scale subresource', () => {
  const deployments = { apiGroups: ['apps'], resources: ['deployments'] };
  expect(gaps(deployments, REPLICAS)).toEqual(['deployments/scale']);
  expect(gaps({ ...deployments, resources: ['deployments', 'deployments/scale'] }, REPLICAS)).toEqual([]);
  expect(gaps({ ...deployments, operations: ['CREATE'] }, REPLICAS)).toEqual([]);
  expect(gaps(deployments)).toEqual([]);
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
  const policy = (match: AdmissionPolicySpec['match'], validate = PRIVILEGED) =>
    compiled({ match, validate });
  const pods = policy({ apiGroups: [''], resources: ['pods'], operations: ['UPDATE', 'DELETE'] });
  const evictions = policy({ apiGroups: [''], resources: ['pods/eviction'], operations: ['CREATE'] });
  const resize = policy({ apiGroups: [''], resources: ['pods/*'], operations: ['UPDATE'] });
  const elsewhere = policy({ apiGroups: ['apps'], resources: ['pods/eviction'], operations: ['CREATE'] });
  expect(uncoveredSubresources(pods, [elsewhere])).toHaveLength(3);
  expect(uncoveredSubresources(pods, [pods, evictions, resize])).toEqual([
    'pods/ephemeralcontainers adds containers without asking this policy: add pods/ephemeralcontainers to match.resources and UPDATE to match.operations',
    'pods/resize changes the resources of containers without asking this policy: add pods/resize to match.resources and UPDATE to match.operations',
  ]);
});
