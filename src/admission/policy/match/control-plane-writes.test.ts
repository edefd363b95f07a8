import { expect, test } from 'vitest';

import { compiled } from '../../../../test/support/runtime/fixtures.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileMatchCondition } from '../../../cel/match-condition.ts';
import { controlPlaneWrites } from './control-plane-writes.ts';

const RULES = { rules: [{ name: 'owner', expression: "'owner' in object.metadata.labels" }] };

const warned = (match: Partial<AdmissionPolicySpec['match']>, spec: Partial<AdmissionPolicySpec> = {}) =>
  controlPlaneWrites(
    compiled({ match: { apiGroups: [''], resources: ['configmaps'], ...match }, validate: RULES, ...spec }),
  );

/** Each was accepted without a word, and stopped a part of a real cluster. */
test.each([
  ['', 'configmaps'],
  ['', 'serviceaccounts'],
  ['', 'serviceaccounts/token'],
  ['', 'pods/binding'],
  ['', 'pods/status'],
  ['discovery.k8s.io', 'endpointslices'],
  ['rbac.authorization.k8s.io', 'clusterroles'],
  ['flowcontrol.apiserver.k8s.io', 'flowschemas'],
])('a policy on "%s" %s gets a condition that compiles and ends the warning', (group, resource) => {
  const match = { apiGroups: [group], resources: [resource] };
  const [message = '', ...others] = warned(match);
  expect(others).toEqual([]);
  const expression = message.slice(message.indexOf('!('));
  compileMatchCondition(expression);
  expect(warned({ ...match, matchConditions: [{ name: 'not-kubernetes', expression }] })).toEqual([]);
});

test.each([
  ['objects with a label', { objectSelector: { matchLabels: { app: 'shop' } } }, {}],
  [
    'no object of Kubernetes, by name',
    { matchConditions: [{ name: 'own', expression: "object.metadata.name != 'kube-root-ca.crt'" }] },
    {},
  ],
  ['a warning, which refuses nothing', {}, { enforcement: 'Warn', failurePolicy: 'Ignore' }],
] as const)('no warning: %s', (_, match, spec) => {
  expect(warned(match as Partial<AdmissionPolicySpec['match']>, spec)).toEqual([]);
});

test('a policy that only fills refuses while no replica answers', () => {
  const fills = { validate: undefined, defaults: [{ path: 'data.a', value: 'b' }] } as const;
  expect(warned({}, fills as unknown as Partial<AdmissionPolicySpec>)).toHaveLength(1);
  expect(
    warned({}, { ...fills, failurePolicy: 'Ignore' } as unknown as Partial<AdmissionPolicySpec>),
  ).toEqual([]);
});

test('a condition on the namespace `default` does not end the warning about the account `default`', () => {
  const excludes = (field: string) => ({
    resources: ['serviceaccounts'],
    matchConditions: [{ name: 'other', expression: `object.metadata.${field} != 'default'` }],
  });
  expect(warned(excludes('namespace'))).toHaveLength(1);
  expect(warned(excludes('name'))).toEqual([]);
});
