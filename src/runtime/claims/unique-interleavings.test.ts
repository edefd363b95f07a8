import fc from 'fast-check';
import { expect, test } from 'vitest';

import { compiled } from '../../../test/support/runtime/fixtures.ts';
import { createSimulation, type Wish } from '../../../test/support/runtime/unique-simulation.ts';
import { createSeeded } from '../../../test/support/seeded.ts';

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

/** Runs four bursts of requests with this seed, and returns the quiet state afterwards. */
async function simulate(seed: number, isSafe: boolean) {
  const random = createSeeded(seed).next;
  const simulation = createSimulation(policy, random, isSafe);
  for (let burst = 0; burst < 4; burst++) {
    const requests = Array.from({ length: 6 }, () => simulation.carryOut(wishFrom(random)));
    const leaders = [simulation.repairClaims(), simulation.repairClaims()];
    await simulation.run([...requests, ...leaders, simulation.cleanUpAll()]);
  }
  const [refusals, stored] = [simulation.refusals(), simulation.objects().size];
  await simulation.settle();
  return { simulation, refusals, stored };
}

const held = ({ objects }: ReturnType<typeof createSimulation>) =>
  [...objects().values()].flatMap(({ metadata, spec }) =>
    spec.serial === undefined ? [] : [`${spec.serial} ${metadata.name}`],
  );
const claimed = ({ claims }: ReturnType<typeof createSimulation>) =>
  claims().map(({ spec }) => `${JSON.parse(spec.values[0] ?? '')} ${spec.holder.name}`);

test('crashes, delays and retries never leave two stored objects with the same value', async () => {
  let refusals = 0;
  let stored = 0;
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (seed) => {
      const { simulation, ...counts } = await simulate(seed, false);
      refusals += counts.refusals;
      stored += counts.stored;
      expect(claimed(simulation).toSorted()).toEqual(held(simulation).toSorted());
    }),
    // In this run, a call of a crashed replica arrived after the last comparison and left an orphaned claim.
    { numRuns: 500, examples: [[1075259115]] },
  );
  // Otherwise the runs have tested nothing.
  expect(refusals).toBeGreaterThan(500);
  expect(stored).toBeGreaterThan(500);
});

test('without crashes, replicas remove their orphaned claims, even if the leader never compares all claims', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (seed) => {
      const { simulation } = await simulate(seed, true);
      expect(claimed(simulation).toSorted()).toEqual(held(simulation).toSorted());
      expect(simulation.unsettled()).toBe(0);
    }),
    { numRuns: 500 },
  );
});
