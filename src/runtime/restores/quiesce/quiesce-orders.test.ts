/**
 * A controller creates whatever it misses, while a backup is restored in a random order. Leaders crash at any write, and
 * the backup tool and other windows interfere.
 */
import { expect, test } from 'vitest';

import {
  closeWindow,
  createQuiesceCluster,
  DEPLOYMENTS,
  openWindow,
  type QuiesceCluster,
} from '../../../../test/support/quiesce-world.ts';
import { isNightly } from '../../../../test/support/nightly.ts';
import { createSeeded, type Seeded } from '../../../../test/support/seeded.ts';
import { isPaused } from '../../../restore/window.ts';
import { quiescePass } from './quiesce-pass.ts';

const SEEDS = isNightly ? 1_000 : 100;
const OWNERS = ['a', 'b', 'c', 'd'];
/** A controller acts this many steps after it was scaled up: the pod has to start. */
const START_STEPS = 3;

class Crash extends Error {}

interface Outcome {
  readonly duplicates: number;
  readonly replicas: unknown;
  readonly marks: unknown;
  readonly isClean: boolean;
}

async function restore(seed: number, quiesces: boolean): Promise<Outcome> {
  const random = createSeeded(seed);
  const cluster = createQuiesceCluster();
  const was = [1, 3, undefined][random.below(3)];
  cluster.put(
    DEPLOYMENTS,
    { name: 'maker', labels: { pause: 'yes' } },
    was === undefined ? {} : { replicas: was },
  );
  const children = new Map(OWNERS.map((owner) => [owner, 0]));
  const restored = new Set<string>();
  let up = START_STEPS;
  const tick = () => {
    up = cluster.get(DEPLOYMENTS, 'maker')?.spec?.replicas === 0 ? 0 : up + 1;
    if (up < START_STEPS) return;
    for (const owner of restored) if (children.get(owner) === 0) children.set(owner, 1);
  };

  openWindow(cluster, 'restore', quiesces ? undefined : []);
  await pass(cluster, random);
  await pass(cluster, random);
  const doesUpdate = random.chance(0.3);
  const overlaps = random.chance(0.3);
  if (overlaps) openWindow(cluster, 'other', quiesces ? undefined : []);
  const writes = random.shuffle([
    ...OWNERS.flatMap((owner) => [
      () => restored.add(owner),
      () => children.set(owner, (children.get(owner) ?? 0) + 1),
    ]),
    // With the policy `update`, the backup tool scales the controller up again.
    ...(doesUpdate ? [() => cluster.set(DEPLOYMENTS, 'maker', 'replicas', 5)] : []),
    ...(overlaps ? [() => closeWindow(cluster, 'other')] : []),
  ]);
  for (const write of writes) {
    write();
    tick();
    await pass(cluster, random);
  }
  cluster.time = new Date('2026-11-21T13:00:00Z');
  closeWindow(cluster, 'restore', false);
  await pass(cluster, random);
  tick();
  closeWindow(cluster, 'restore');
  for (let turn = 0; turn < 3; turn += 1) await pass(cluster, random);
  for (let turn = 0; turn < 5; turn += 1) tick();
  const maker = cluster.get(DEPLOYMENTS, 'maker');
  return {
    duplicates: [...children.values()].filter((count) => count > 1).length,
    replicas: [maker?.spec?.replicas, doesUpdate ? 5 : was],
    marks: [maker?.metadata?.annotations, maker?.metadata?.labels],
    isClean: [...cluster.windows.values()].every((window) => !isPaused(window)),
  };
}

/** One pass. A crash ends it at a write, before or after the write is stored; the next leader runs it again. */
async function pass(cluster: QuiesceCluster, random: Seeded): Promise<void> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const leader = new AbortController();
    cluster.fault = () => {
      leader.signal.throwIfAborted();
      if (attempt >= 5 || !random.chance(0.2)) return;
      leader.abort(new Crash());
      throw new Crash();
    };
    const result = await quiescePass(cluster.world, leader.signal).catch((error: unknown) => {
      if (!(error instanceof Crash)) throw error;
      return 'failed' as const;
    });
    cluster.fault = () => undefined;
    if (result !== 'failed') return;
  }
  throw new Error('the pass does not end');
}

test(`${SEEDS} random orders leave no duplicate, and the controller as it was`, async () => {
  for (let seed = 0; seed < SEEDS; seed += 1) {
    const { duplicates, replicas, marks, isClean } = await restore(seed, true);
    const [is, wanted] = replicas as [unknown, unknown];
    expect({ seed, duplicates, is, marks, isClean }).toEqual({
      ...{ seed, duplicates: 0, is: wanted, isClean: true },
      marks: [{}, { pause: 'yes' }],
    });
  }
});

test('without a pause, most of the same orders leave duplicates', async () => {
  let spoiled = 0;
  for (let seed = 0; seed < 100; seed += 1) if ((await restore(seed, false)).duplicates > 0) spoiled += 1;
  expect(spoiled).toBeGreaterThan(90);
});
