import fc from 'fast-check';
import { expect, test } from 'vitest';
import { firstClaim, type SecretClaim } from './secret-claim.ts';

const claim = (name: string, createdAt: string | undefined, uid = name, own = false): SecretClaim => ({
  name,
  uid,
  createdAt,
  own,
});

test.each<[string, readonly SecretClaim[], string | undefined]>([
  ['nobody', [], undefined],
  ['the older', [claim('b', '2026-01-02T00:00:00Z'), claim('a', '2026-01-01T00:00:00Z')], 'a'],
  [
    'of one second, the smaller uid',
    [claim('b', '2026-01-01T00:00:00Z', '2'), claim('a', '2026-01-01T00:00:00Z', '1')],
    'a',
  ],
  ['the one whose age is known', [claim('b', undefined), claim('a', '2026-01-01T00:00:00Z')], 'a'],
  [
    'Gatehouse, however young',
    [claim('b', '2020-01-01T00:00:00Z'), claim('a', '2026-01-01T00:00:00Z', 'z', true)],
    'a',
  ],
])('L3: a Secret that several Services name goes to %s', (_who, claims, name) => {
  expect(firstClaim(claims)?.name).toBe(name);
});

test('whatever order they come in, the same claim holds', () => {
  const time = fc.constantFrom(undefined, '2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', 'garbage');
  const claims = fc.uniqueArray(
    fc.record({ name: fc.constant('x'), uid: fc.uuid(), createdAt: time, own: fc.boolean() }),
    { selector: ({ uid }) => uid, minLength: 1, maxLength: 6 },
  );
  fc.assert(
    fc.property(claims, fc.infiniteStream(fc.double({ noNaN: true })), (some, noise) => {
      const shuffled = some
        .map((one) => ({ one, at: Number(noise.next().value) }))
        .sort((a, b) => a.at - b.at)
        .map(({ one }) => one);
      expect(firstClaim(shuffled)).toEqual(firstClaim(some));
    }),
  );
});
