import { expect, test } from 'vitest';

import { GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { installationOwner } from '../webhooks/installation-owner.ts';
import { enforcesAsWanted, installedOf, isAsWanted, isInstalledByUs } from './installed-policy.ts';
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
