import { expect, test } from 'vitest';

import { policyOf } from '../../../test/support/admission/policy.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { withinNamespaces } from './undecidable.ts';

const NAMESPACES = ['gatehouse-system', 'shop'];

/** The parts of a policy that decide whether it reads other objects. */
const policy = (change: Partial<CompiledPolicy> = {}): CompiledPolicy =>
  ({ name: 'one', targets: [], unique: [], preservesOwners: false, ...change }) as unknown as CompiledPolicy;

const READING: readonly (readonly [string, CompiledPolicy])[] = [
  ['references', policy({ targets: [{ group: '', resource: 'secrets', whole: false }] })],
  ['unique values', policy({ unique: [{} as never] })],
  ['owners', policy({ preservesOwners: true })],
];

test.each(READING)('a policy with %s cannot be evaluated outside of the namespaces', (_what, one) => {
  const [elsewhere] = withinNamespaces('validate', NAMESPACES, { namespace: 'other' }, [one]);
  expect(elsewhere?.undecidable?.message).toContain('does not read namespace other');
});

test.each(READING)(
  'a policy with %s applies in the namespaces, and to cluster-scoped objects',
  (_what, one) => {
    for (const namespace of ['shop', undefined])
      expect(withinNamespaces('validate', NAMESPACES, { namespace }, [one])).toEqual([one]);
    expect(withinNamespaces('validate', undefined, { namespace: 'other' }, [one])).toEqual([one]);
  },
);

test('a policy that needs only the request applies everywhere', () => {
  expect(withinNamespaces('validate', NAMESPACES, { namespace: 'other' }, [policy()])).toEqual([policy()]);
});

const tier = { name: 'tier', expression: '{"spec": {"tier": params.data.tier}}' };
const params = { apiGroup: '', resource: 'configmaps', name: 'limits', namespace: 'shop' };

test.each([
  ['preserves owners', policyOf({ owners: { preserve: true } }), false],
  ['has mutations that read params', policyOf({ params, mutations: [tier] }), false],
  [
    'reads params only in rules',
    policyOf({ params, validate: { rules: [{ expression: 'has(params.data)' }] } }),
    true,
  ],
  ['has only defaults', policyOf({ defaults: [{ path: 'spec.tier', value: 'standard' }] }), true],
])('whether mutations apply outside of the namespaces if a policy %s', (_what, one, applies) => {
  const [elsewhere] = withinNamespaces('mutate', NAMESPACES, { namespace: 'other' }, [one]);
  expect(elsewhere?.undecidable === undefined).toBe(applies);
});
