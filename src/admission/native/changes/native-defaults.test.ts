import { describe, expect, test } from 'vitest';

import { GROUP, policyOf } from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileNative } from '../native-policy.ts';

type Spec = Partial<AdmissionPolicySpec>;

const UNITS: Spec = { defaults: [{ path: 'spec.units', value: 1 }] };
const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [{ user: 'velero' }] };

const native = (spec: Spec, ...others: readonly Spec[]) => {
  const all = others.map((other, index) => policyOf(other, `other-${index}`));
  return compileNative(policyOf(spec, 'own'), { ...OPTIONS, others: all });
};

/** Why the webhook fills the defaults; undefined: the API server does. */
function reasonFor(...specs: readonly [Spec, ...Spec[]]): string | undefined {
  const check = native(...specs).checks.find((one) => one.check === 'defaults');
  if (check === undefined) throw new Error('there are no defaults');
  return check.by === 'Webhook' ? check.reason : undefined;
}

const pods = { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] };

describe('the webhook fills the defaults', () => {
  test.each<[string, Spec]>([
    ['neither a string nor a Boolean', { defaults: [{ path: 'spec.a', expression: 'object.spec.b' }] }],
    ['neither a string nor', { defaults: [{ path: 'spec.a', expression: 'object.b.orValue("c")' }] }],
    [
      'may infer another type for variables.b',
      {
        variables: [{ name: 'b', expression: 'object.b.orValue("c")' }],
        defaults: [{ path: 'spec.a', expression: 'string(variables.b)' }],
      },
    ],
    ['may write a field that a built-in kind lacks', { ...UNITS, match: pods }],
    [
      'failurePolicy Ignore admits requests whose matchConditions fail',
      {
        ...UNITS,
        failurePolicy: 'Ignore',
        match: {
          apiGroups: [GROUP],
          resources: ['servers'],
          matchConditions: [{ name: 'a', expression: 'request.userInfo.username != "a"' }],
        },
      },
    ],
    [
      'its changes may decide whether it governs the object',
      {
        defaults: [{ path: 'metadata.labels.tier', value: 'gold' }],
        match: {
          apiGroups: [GROUP],
          resources: ['servers'],
          objectSelector: { matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] },
        },
      },
    ],
    [
      'mutation a needs the webhook',
      { ...UNITS, mutations: [{ name: 'a', expression: '{"spec": {"units": 2}}' }] },
    ],
  ])('because %s', (reason, spec) => {
    expect(reasonFor(spec)).toContain(reason);
  });

  const mutating: Spec = { mutations: [{ name: 'a', expression: 'object' }] };
  const tier = (more: Spec = {}): Spec => ({ defaults: [{ path: 'spec.tier', value: 'gold' }], ...more });

  test.each<[string, Spec, Spec]>([
    ['has a mutation of any field', UNITS, mutating],
    ['fills the same field', UNITS, { defaults: [{ path: 'spec.units', value: 2 }] }],
    ['reads the field', UNITS, { defaults: [{ path: 'other', expression: 'string(object.spec.units)' }] }],
    [
      'fills what an expression reads',
      { defaults: [{ path: 'other', expression: 'string(object.spec.a)' }] },
      UNITS,
    ],
    ['selects the kind with *', UNITS, { ...mutating, match: { apiGroups: [GROUP], resources: ['*'] } }],
  ])('because another policy %s', (_what, own, other) => {
    expect(reasonFor(own, other)).toContain('AdmissionPolicy other-0');
  });

  test('but not because of policies for other kinds, other fields, or without changes', () => {
    const datacenters = { apiGroups: [GROUP], resources: ['datacenters'] };
    const elsewhere: Spec = {
      mutations: [{ name: 'a', expression: '{"metadata": {"labels": {"a": "b"}}}' }],
    };
    const rules = { rules: [{ expression: 'object.spec.units > 0' }] };
    expect(
      reasonFor(UNITS, tier(), { ...mutating, match: datacenters }, { validate: rules }),
    ).toBeUndefined();
    expect(reasonFor(UNITS, elsewhere)).toBeUndefined();
  });
});

describe('the API server fills only fields of built-in kinds that certainly exist', () => {
  const several = { apiGroups: ['', 'apps'], apiVersions: ['v1'], resources: ['pods', 'deployments'] };
  const text = 'metadata.labels["example.com/team"]';

  test.each<[string, NonNullable<Spec['match']>]>([
    ['spec.containers[*].imagePullPolicy', pods],
    ['spec.template.spec.hostNetwork', { ...pods, apiGroups: ['apps'], resources: ['statefulsets'] }],
    ['automountServiceAccountToken', { ...pods, resources: ['serviceaccounts'] }],
    [text, several],
    [text, { apiGroups: ['apps'], apiVersions: ['*'], resources: ['*'] }],
    ['spec.tier', { apiGroups: [GROUP], resources: ['servers'] }],
  ])('%s', (path, match) => {
    expect(reasonFor({ match, defaults: [{ path, value: 'a' }] })).toBeUndefined();
  });

  test.each<[string, NonNullable<Spec['match']>]>([
    ['spec.containers[*].imagePullPolcy', pods],
    ['spec.constructor', pods],
    ['spec.containers', pods],
    ['spec.hostname', { ...pods, apiVersions: ['v1', 'v2'] }],
    ['spec.hostname', { ...pods, resources: ['pods', 'configmaps'] }],
    ['spec.tier', { apiGroups: [GROUP, ''], apiVersions: ['v1'], resources: ['servers'] }],
  ])('%s is left to the webhook', (path, match) => {
    expect(reasonFor({ match, defaults: [{ path, value: 'a' }] })).toMatch(/a built-in kind lacks/);
  });
});
