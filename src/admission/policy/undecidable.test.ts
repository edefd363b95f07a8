import { expect, test } from 'vitest';

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
  const [elsewhere] = withinNamespaces(NAMESPACES, { namespace: 'other' }, [one]);
  expect(elsewhere?.undecidable?.message).toContain('does not read namespace other');
});

test.each(READING)(
  'a policy with %s applies in the namespaces, and to cluster-scoped objects',
  (_what, one) => {
    for (const namespace of ['shop', undefined])
      expect(withinNamespaces(NAMESPACES, { namespace }, [one])).toEqual([one]);
    expect(withinNamespaces(undefined, { namespace: 'other' }, [one])).toEqual([one]);
  },
);

test('a policy that needs only the request applies everywhere', () => {
  expect(withinNamespaces(NAMESPACES, { namespace: 'other' }, [policy()])).toEqual([policy()]);
});
