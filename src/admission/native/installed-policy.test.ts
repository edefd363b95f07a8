import { describe, expect, test } from 'vitest';

import { GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { installationOwner } from '../webhooks/installation-owner.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import {
  enforcesAsWanted,
  installedOf,
  isAsWanted,
  isInstalledByUs,
  isTypeChecked,
  warnedBy,
} from './installed-policy.ts';
import { inWebhook } from './native-check.ts';
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

describe('a type check', () => {
  const schema = { properties: { spec: { required: ['a', 'b'] } } };
  const rules = ['small', 'large', 'large'].map((name) => ({ name, expression: 'object.spec.units < 5' }));
  const spec = { validate: { schema, rules }, warnings: [{ message: 'old' }] };
  const { checks } = compileNative(policyOf(spec), OPTIONS);
  const POLICIES = { part: 'policies', answersProbes: true } as const;
  const NOTICES = { part: 'notices', answersProbes: false } as const;
  const warn = (fieldRef: string, pair: object, observedGeneration = 2) => {
    const typeChecking = { expressionWarnings: [{ fieldRef, warning: 'undefined field\n' }] };
    const stored = { metadata: { generation: 2 }, status: { observedGeneration, typeChecking } };
    return warnedBy(stored, { ...POLICIES, ...pair }, checks);
  };

  test('ends with the generation of the stored text', () => {
    const stored = (status: object): KubeObject => ({ metadata: { generation: 2 }, ...{ status } });
    expect(isTypeChecked(stored({ observedGeneration: 2 }))).toBe(true);
    expect(isTypeChecked(stored({ observedGeneration: 1 }))).toBe(false);
    expect(warn('spec.validations[1].expression', {}, 1)).toEqual([]);
  });

  const ALL = ['schema', 'rule small', 'rule large', 'rule large'];
  test.each([
    ['spec.validations[2].expression', {}, ['schema'], 'its expression'],
    ['spec.validations[3].expression', {}, ['rule small'], 'its expression'],
    ['spec.validations[5].messageExpression', {}, ['rule large'], 'its messageExpression'],
    ['spec.validations[2].expression', { answersProbes: false }, ['rule small'], 'its expression'],
    ['spec.validations[0].expression', NOTICES, ['warnings'], 'its expression'],
    ['spec.validations[0].expression', {}, ALL, 'spec.validations[0].expression'],
    ['spec.variables[0].expression', {}, ALL, 'spec.variables[0].expression'],
    ['spec.matchConditions[0]', NOTICES, ['warnings'], 'spec.matchConditions[0]'],
  ] as const)('that warns about %s in %j is about %j: %s', (fieldRef, pair, wanted, named) => {
    const reason = `the API server warns about ${named}: undefined field`;
    expect(warn(fieldRef, pair)).toEqual(wanted.map((check) => ({ check, by: 'Webhook', reason })));
  });
});

test('checks with a warning leave the text, with what only they need', () => {
  const rules = ['few', 'other', 'other'].map((name) => ({ name, expression: `variables.${name}` }));
  const variables = ['few', 'other'].map((name) => ({ name, expression: 'object.spec.units < 5' }));
  const policy = policyOf({ variables, validate: { rules }, warnings: [{ message: 'old' }] });
  const compiledWithout = (...names: string[]) => {
    const warned = names.map((check) => inWebhook(check, 'undefined field'));
    const { checks, pairs } = compileNative(policy, { ...OPTIONS, warned });
    expect(checks.filter(({ by }) => by === 'Webhook').map(({ check }) => check)).toEqual(names);
    return JSON.stringify(pairs.map((pair) => pair.policy));
  };
  expect(compiledWithout()).toMatch(/variables\.few.*variables\.other.*variables\.other.*"old"/);
  expect(compiledWithout('rule few', 'warnings')).not.toMatch(/"few"|variables\.few|"old"/);
  expect(compiledWithout('rule other', 'rule other')).not.toMatch(/"other"|variables\.other/);
});

test('a policy is compiled again only if the version or the options change', () => {
  const compile = oncePerVersion((_policy, options) => ({ options }));
  const [policy, other] = [policyOf({}), policyOf({})];
  const options: NativeOptions = { ownNamespace: 'g', restorers: [{ user: 'velero' }], others: [other] };
  const compiled = compile(policy, options);
  expect(compile(policy, { ...options, restorers: [{ user: 'velero' }] })).toBe(compiled);
  const warned = [inWebhook('rule few', 'undefined field')];
  for (const change of [{ restorers: [] }, { others: [] }, { others: [policy] }, { warned }])
    expect(compile(policy, { ...options, ...change }).options).toMatchObject(change);
  expect(compile(other, options)).not.toBe(compile(policy, options));
});
