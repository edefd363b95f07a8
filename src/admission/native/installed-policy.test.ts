import { expect, test } from 'vitest';

import { GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { installationOwner } from '../webhooks/installation-owner.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import {
  enforcesAsWanted,
  installedOf,
  isAsWanted,
  isInstalledByUs,
  obstacleOf,
  TYPES_UNCHECKED,
} from './installed-policy.ts';
import { compileNative, oncePerVersion, type NativeOptions } from './native-policy.ts';

const OWNER = { name: 'servers', uid: 'u' };
const OPTIONS = { ownNamespace: 'g', restorers: [], others: [] };
const RULE = { name: 'most', expression: 'object.spec.units <= params.spec.most' };

function installed(spec: Partial<AdmissionPolicySpec>) {
  const { pairs } = compileNative(policyOf(spec), OPTIONS);
  return pairs.map((pair) => {
    const { part, answersProbes, policy } = installedOf(pair, OWNER);
    return [part, answersProbes, JSON.stringify(policy).includes('"uniqueclaims"')];
  });
}

const paramsOf = (resource: string, namespace?: string): Partial<AdmissionPolicySpec> => ({
  params: {
    apiGroup: GROUP,
    resource,
    name: 'limits',
    whenMissing: 'Allow',
    ...(namespace === undefined ? {} : { namespace }),
  },
  validate: { rules: [RULE, { name: 'small', expression: 'object.spec.units < 5' }] },
});

test('a pair that refuses requests has a probe', () => {
  const rules = [{ name: 'small', expression: 'object.spec.units < 5' }];
  expect(installed({ validate: { rules } })).toEqual([['policies', true, true]]);
  expect(installed({ validate: { rules }, enforcement: 'Warn' })).toEqual([['policies', false, false]]);
});

// A UniqueClaim is cluster-scoped, so the API server would always refuse the probe, and the leader would never confirm the pair.
test('a pair with params in the namespace of each object lacks a probe', () => {
  expect(installed(paramsOf('classes'))).toEqual([
    ['policies', true, true],
    ['params', false, false],
  ]);
});

test('a copy under another name is not ours, so it is not deleted', () => {
  const { pairs } = compileNative(policyOf(paramsOf('datacenters')), OPTIONS);
  const policies = pairs.map((pair) => installedOf(pair, OWNER).policy);
  expect(policies.map((policy) => isInstalledByUs(policy))).toEqual(policies.map(() => true));
  const copies = policies.map((policy) => ({ ...policy, metadata: { ...policy.metadata, name: 'copy' } }));
  expect(copies.some((copy) => isInstalledByUs(copy))).toBe(false);
  const [wanted = {}] = policies;
  const unmarked = { ...wanted, metadata: { ...wanted.metadata, labels: {} } };
  const unowned = { ...unmarked, metadata: { ...unmarked.metadata, ownerReferences: [] } };
  expect([unmarked, unowned].map((stored) => isInstalledByUs(stored, wanted))).toEqual([true, false]);
});

test('the AdmissionPolicy owns the policy, and the installation owns the binding', () => {
  const { pairs } = compileNative(policyOf(paramsOf('datacenters')), OPTIONS);
  const [pair] = pairs;
  if (pair === undefined) throw new Error('there is a pair');
  const kindsOf = (owner?: ReturnType<typeof installationOwner>) => {
    const { policy, binding } = installedOf(pair, OWNER, owner);
    return [policy, binding].map(({ metadata }) =>
      metadata?.ownerReferences?.map(({ kind, uid }) => `${kind} ${uid}`),
    );
  };
  expect(kindsOf(installationOwner('r'))).toEqual([['AdmissionPolicy u'], ['ClusterRole r']]);
  expect(kindsOf()).toEqual([['AdmissionPolicy u'], ['AdmissionPolicy u']]);

  const [before, after] = ['r', 's'].map((uid) => installedOf(pair, OWNER, installationOwner(uid)).binding);
  if (before === undefined || after === undefined) throw new Error('there are two bindings');
  expect([enforcesAsWanted(before, after), isAsWanted(before, after)]).toEqual([true, false]);
});

test('the branches of a schema apply under their conditions', () => {
  const schema = { if: { required: ['spec'] }, then: { required: ['a'] }, else: { required: ['b'] } };
  const options = { ownNamespace: 'g', restorers: [], others: [] };
  const { pairs } = compileNative(policyOf({ validate: { schema } }), options);
  const has = (key: string) => `(type(value) != map || "${key}" in value)`;
  const branch = (condition: string, key: string) => ({
    expression: `variables.gatehouse_schema_0.all(value, !(${condition}) || ${has(key)})`,
    message: `${key}: is required: add it (policy servers)`,
    reason: 'Forbidden',
  });
  const test = `(${has('spec')})`;
  const validations = [branch(test, 'a'), branch(`!(${test})`, 'b')];
  expect(pairs[0]?.policy).toMatchObject({ spec: { validations } });
});

test('a policy counts as enforced once its types are checked without a warning', () => {
  const stored = (status: object): KubeObject & { readonly status: object } => ({
    metadata: { generation: 2 },
    status,
  });
  const expressionWarnings = [{ fieldRef: 'spec.variables[0]', warning: 'undefined field' }];
  expect(obstacleOf(stored({ observedGeneration: 2 }))).toBeUndefined();
  expect(obstacleOf(stored({ observedGeneration: 1 }))).toBe(TYPES_UNCHECKED);
  expect(obstacleOf(stored({ observedGeneration: 2, typeChecking: { expressionWarnings } }))).toBe(
    'the API server warns about spec.variables[0]: undefined field',
  );
});

test('a policy is compiled again only if the version or the options change', () => {
  const compile = oncePerVersion((_policy, options) => ({ options }));
  const [policy, other] = [policyOf({}), policyOf({})];
  const options: NativeOptions = { ownNamespace: 'g', restorers: [{ user: 'velero' }], others: [other] };
  const compiled = compile(policy, options);
  expect(compile(policy, { ...options, restorers: [{ user: 'velero' }] })).toBe(compiled);
  for (const change of [{ restorers: [] }, { others: [] }, { others: [policy] }])
    expect(compile(policy, { ...options, ...change }).options).toMatchObject(change);
  expect(compile(other, options)).not.toBe(compile(policy, options));
});
