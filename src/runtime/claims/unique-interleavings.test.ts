import fc from 'fast-check';
import { expect, test } from 'vitest';

import { compiled } from '../../../test/support/runtime/fixtures.ts';
import { createSimulation, randomFrom, type Wish } from '../../../test/support/runtime/unique-simulation.ts';

const policy = compiled({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } });

const NAMES = ['a', 'b', 'c'];
const SERIALS = ['X', 'Y', undefined];

function wishFrom(random: () => number): Wish {
  const name = NAMES[Math.floor(random() * NAMES.length)] ?? 'a';
  const serial = SERIALS[Math.floor(random() * SERIALS.length)];
  const kind = random();
  if (kind < 0.45) return { kind: 'create', name, serial };
  return kind < 0.8 ? { kind: 'update', name, serial } : { kind: 'delete', name };
}

test('crashes, delays and retries never leave two stored objects with the same value', async () => {
  let refusals = 0;
  let stored = 0;
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (seed) => {
      const random = randomFrom(seed);
      const simulation = createSimulation(policy, random);
      for (let burst = 0; burst < 4; burst++) {
        const requests = Array.from({ length: 6 }, () => simulation.carryOut(wishFrom(random)));
        const leaders = [simulation.repairClaims(), simulation.repairClaims()];
        await simulation.run([...requests, ...leaders]);
      }
      refusals += simulation.refusals();
      stored += simulation.objects().size;

      await simulation.settle();
      const held = [...simulation.objects().values()].flatMap(({ metadata, spec }) =>
        spec.serial === undefined ? [] : [`${spec.serial} ${metadata.name}`],
      );
      const claimed = simulation
        .claims()
        .map(({ spec }) => `${JSON.parse(spec.values[0] ?? '')} ${spec.holder.name}`);
      expect(claimed.toSorted()).toEqual(held.toSorted());
    }),
    { numRuns: 500 },
  );
  // Otherwise the runs have tested nothing.
  expect(refusals).toBeGreaterThan(500);
  expect(stored).toBeGreaterThan(500);
});
