import { describe, expect, test } from 'vitest';

import {
  createReferenceSimulation,
  EXPIRED_MS,
  type Defect,
  type Outcome,
  type Wish,
} from '../../../test/support/runtime/reference-simulation.ts';
import { HOLD_MS } from './held-intents.ts';
import { createSeeded } from '../../../test/support/seeded.ts';

const name = (server: string, datacenter = 'x'): Wish => ({ kind: 'name', server, datacenter });
const remove: Wish = { kind: 'delete-datacenter', name: 'x' };
const recreate: Wish = { kind: 'create-datacenter', name: 'x' };
const removeServer: Wish = { kind: 'delete-server', name: 'old' };

type Simulation = ReturnType<typeof createReferenceSimulation>;

/**
 * Carries out wishes; `choose` returns which of the waiting steps is next. A pause ends only when nothing else waits:
 * a deletion that gives up earlier changes nothing.
 */
function createRun(choose: (count: number) => number, defect?: Defect, replicas = 0) {
  const waiting: (() => void)[] = [];
  const pausing: (() => void)[] = [];
  const step = (isPause = false) =>
    new Promise<void>((resolve) => (isPause ? pausing : waiting).push(() => resolve()));
  const simulation = createReferenceSimulation({ step }, defect, replicas);
  const run = async <T>(tasks: readonly Promise<T>[]): Promise<readonly T[]> => {
    let left = 1;
    const all = Promise.all(tasks).finally(() => (left -= 1));
    all.catch(() => undefined); // thrown below
    for (;;) {
      await new Promise(setImmediate);
      if (left === 0) return await all;
      const next = waiting.length > 0 ? waiting.splice(choose(waiting.length), 1)[0] : pausing.shift();
      next?.();
    }
  };
  return { simulation, run };
}

/** @param crash the request that crashes, and the call at which it does */
interface Scene {
  readonly wishes: readonly Wish[];
  readonly crash?: { readonly request: number; readonly call: number };
  readonly defect?: Defect;
  /** How many replicas hold intents. The requests alternate between them. */
  readonly replicas?: number;
  /** The first replica has held an intent for `x` for so long before the requests begin, in milliseconds. */
  readonly heldMs?: number;
  /** With it, time passes, and replicas clean up intents while the requests run. */
  readonly random?: () => number;
}

const DELAYS = [10, 1_000, 20_000, 65_000];

async function play(
  { wishes, crash, defect, random, replicas = 0, heldMs }: Scene,
  choose: (count: number) => number,
): Promise<readonly Outcome[]> {
  let isPreparing = true;
  const { simulation, run } = createRun(
    (count) => {
      if (isPreparing) return 0;
      if (random !== undefined && random() < 0.1) simulation.pass(DELAYS[Math.floor(random() * 4)] ?? 0);
      return choose(count);
    },
    defect,
    replicas,
  );
  for (const datacenter of ['x', 'y'])
    await run([simulation.carryOut({ kind: 'create-datacenter', name: datacenter })]);
  await run([simulation.carryOut(name('old', 'y'))]);
  if (heldMs !== undefined) {
    await run([simulation.carryOut(name('earlier'))]);
    await run([simulation.carryOut({ kind: 'delete-server', name: 'earlier' })]);
    simulation.pass(heldMs);
  }
  isPreparing = false;
  const requests = wishes.map((wish, index) =>
    simulation.carryOut(wish, crash?.request === index ? crash.call : 0, replicas > 0 ? index % replicas : 0),
  );
  const release = (index: number) => simulation.release(index).then((): Outcome => 'gone');
  const releasing = (times: number) =>
    Array.from({ length: replicas * times }, (_, n) => release(n % replicas));
  const cleaning = () => Array.from({ length: 3 }, () => simulation.cleanUp().then((): Outcome => 'gone'));
  const others =
    random === undefined ? releasing(1) : [...cleaning(), ...releasing(Math.floor(random() * 4))];
  const outcomes = (await run([...requests, ...others])).slice(0, requests.length);
  isPreparing = true;
  if (defect === undefined) await expectNothingLost(simulation, run);
  return outcomes;
}

/** Later, each request gets the answer that the stored objects give. */
async function expectNothingLost(
  simulation: Simulation,
  run: (tasks: readonly Promise<Outcome>[]) => Promise<readonly Outcome[]>,
): Promise<void> {
  simulation.pass(EXPIRED_MS);
  const isThere = simulation.has('datacenters/x');
  const isNamed = simulation.isNamed('x');
  const ofNoReplica = -1; // the replicas may have crashed
  expect(await run([simulation.carryOut(remove, 0, ofNoReplica)])).toEqual([
    !isThere ? 'gone' : isNamed ? 'refused' : 'stored',
  ]);
  const isLeft = isThere && isNamed;
  const late = simulation.carryOut(name('late'), 0, ofNoReplica);
  expect(await run([late])).toEqual([isLeft ? 'stored' : 'refused']);
  simulation.pass(EXPIRED_MS);
  await run([simulation.cleanUp().then((): Outcome => 'gone')]);
  expect(simulation.intents()).toBe(0);
}

/** Plays the scene in every order of its steps. Returns how many orders there are. */
async function playAll(scene: Scene): Promise<number> {
  let path: { readonly choice: number; readonly count: number }[] = [];
  for (let runs = 1; ; runs++) {
    let depth = 0;
    await play(scene, (count) => {
      const choice = path[depth]?.choice ?? 0;
      path[depth] = { choice, count };
      depth += 1;
      return choice;
    });
    path = path.slice(0, depth);
    while (path.length > 0 && (path.at(-1)?.choice ?? 0) + 1 === path.at(-1)?.count) path.pop();
    const last = path.pop();
    if (last === undefined) return runs;
    path.push({ ...last, choice: last.choice + 1 });
  }
}

const SCENES: readonly (readonly [string, readonly Wish[]])[] = [
  ['a creation and a deletion', [name('a'), remove]],
  ['a move and a deletion', [name('old'), remove]],
  ['two deletions', [remove, remove]],
  ['two creations of one Server', [name('a'), name('a')]],
];

describe.each(SCENES)('in every order of %s, no reference dangles and nothing is lost', (_name, wishes) => {
  test('if no replica crashes', async () => {
    expect(await playAll({ wishes })).toBeGreaterThan(50);
  });

  test.each([1, 2, 3, 4, 5])('if the replica of a request crashes at its call %i', async (call) => {
    for (const request of wishes.keys())
      expect(await playAll({ wishes, crash: { request, call } })).toBeGreaterThan(1);
  });
});

/** The nightly run plays more. */
const RANDOM = Number(process.env.GATEHOUSE_REFERENCE_SCHEDULES ?? 500);

const WISHES = [name('a'), name('b'), name('old'), name('old', 'y'), remove, remove, recreate, removeServer];

async function playRandom(seed: number, requests: number, defect?: Defect): Promise<readonly Outcome[]> {
  const { next: random, below: pick, pick: oneOf } = createSeeded(seed);
  const wishes = Array.from({ length: requests }, () => oneOf(WISHES));
  const crash = random() < 0.3 ? { crash: { request: pick(requests), call: 1 + pick(6) } } : {};
  // Even without held intents.
  const heldMs = [undefined, 0, HOLD_MS - 10, EXPIRED_MS][pick(4)];
  const held = { replicas: seed % 3, ...(heldMs === undefined ? {} : { heldMs }) };
  return await play({ wishes, random, ...held, ...crash, ...(defect === undefined ? {} : { defect }) }, pick);
}

test(
  'in random orders of up to six requests, no reference dangles and nothing is lost',
  { timeout: 60_000 + RANDOM * 20 },
  async () => {
    const outcomes = new Map<Outcome, number>();
    for (let seed = 1; seed <= RANDOM; seed++)
      for (const one of await playRandom(seed, 2 + (seed % 5)))
        outcomes.set(one, (outcomes.get(one) ?? 0) + 1);
    // Otherwise the runs have tested nothing.
    for (const one of ['stored', 'refused', 'retry', 'crashed'] as const)
      expect(outcomes.get(one)).toBeGreaterThan(RANDOM / 100);
  },
);

test.each<Defect>([
  ...(['ignores deletions', 'ignores the target', 'ignores writes', 'lists nothing live'] as const),
  ...(['admits after release', 'ignores expiry', 'removes too early'] as const),
])('the model finds a copy of Gatehouse that %s', async (defect) => {
  const playMany = async () => {
    for (let seed = 1; seed <= 5_000; seed++) await playRandom(seed, 4, defect);
  };
  await expect(playMany()).rejects.toThrow('which is gone');
});
