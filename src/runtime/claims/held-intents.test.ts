import { beforeEach, describe, expect, test } from 'vitest';

import { createClaimsInMemory, type ClaimsInMemory } from '../../../test/support/admission/claims.ts';
import { GROUP } from '../../../test/support/admission/policy.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import { newIntent, targetLabel } from '../../admission/policy/references/check-references.ts';
import type { HeldTarget, Holding } from '../../admission/policy/world.ts';
import { createHeldIntents, HOLD_MS, type HeldIntents, type HeldIntentsOptions } from './held-intents.ts';

const START = Date.parse('2026-11-27');
const refOf = (name: string) => ({ group: GROUP, resource: 'datacenters', namespace: undefined, name });
const target = (name = 'fra1'): HeldTarget => ({
  target: refOf(name),
  policy: { name: 'servers' },
  reference: { name: 'datacenter' },
});

let passed: number;
/** What the clock of the API server shows more than the monotonic clock. */
let jumped: number;
let seesDeletions: boolean;
let claims: ClaimsInMemory;
let held: HeldIntents;

beforeEach(() => {
  passed = 0;
  jumped = 0;
  seesDeletions = true;
  claims = createClaimsInMemory();
  held = createHeldIntents(options());
});

const options = (): HeldIntentsOptions => ({
  claims,
  cleanup: claims,
  identity: 'one',
  signal: NEVER,
  now: () => START + passed + jumped,
  monotonic: () => 1_000_000 + passed,
  seesDeletions: () => seesDeletions,
  timeout: () => NEVER,
  mostHeld: 3,
});

const holdOf = (...names: readonly string[]): Holding => {
  const holding = held.hold(names.map(target));
  if (holding === undefined) throw new Error('nothing is held');
  return holding;
};
const admittedOf = ({ name }: Holding) => {
  const admitted = { at: new Date(START).toISOString() };
  return newIntent(name, { policy: 'servers', rule: '' }, refOf('a'), [], admitted, START);
};
/** A write that is admitted, and not over. */
async function write(...names: readonly string[]): Promise<Holding> {
  const holding = holdOf(...names);
  await holding.stored();
  for (const name of names) holding.report(refOf(name), true);
  holding.end(admittedOf(holding));
  return holding;
}
const creates = () => claims.asked.filter((call) => call.startsWith('create')).length;
/** Runs the cleanup, and waits for its calls. */
async function cleaned(): Promise<number> {
  held.clean();
  await new Promise(setImmediate);
  return claims.stored.size;
}

describe('a held intent', () => {
  test('is stored once for many writes, with the label of its target', async () => {
    const first = holdOf('fra1');
    const second = holdOf('fra1');
    await Promise.all([first.stored(), second.stored()]);
    expect(creates()).toBe(1);
    const [intent] = claims.stored.values();
    expect(intent?.metadata.labels).toHaveProperty([targetLabel(refOf('fra1'))]);
    expect(first.isClear(refOf('fra1'))).toBe(false);
    first.report(refOf('fra1'), true);
    expect(second.isClear(refOf('fra1'))).toBe(true);
  });

  test.each<[string, () => void]>([
    ['the monotonic clock', () => (passed = HOLD_MS)],
    ['the clock of the API server', () => (jumped = HOLD_MS)],
  ])('refuses writes once it has expired by %s', async (_clock, pass) => {
    await write('fra1');
    pass();
    expect(holdOf('fra1').isClear(refOf('fra1'))).toBe(false);
    await write('fra1');
    expect(creates()).toBe(2);
    expect(await cleaned()).toBe(2); // the first write may not be stored yet
  });

  test('stays until all writes under it are over, and is removed then', async () => {
    const [first, second] = [await write('fra1'), await write('fra1', 'muc1')];
    held.release(refOf('fra1'));
    expect(await cleaned()).toBe(2);
    held.finish(first.name);
    expect(await cleaned()).toBe(2);
    held.finish(second.name);
    expect(await cleaned()).toBe(1); // the one of muc1
    const refused = holdOf('muc1');
    held.release(refOf('muc1'));
    expect(await cleaned()).toBe(1); // a request is in progress
    claims.before('remove', () => {
      throw new Error('connection refused');
    });
    refused.end(undefined);
    expect(await cleaned()).toBe(1);
    claims.before('remove', () => undefined);
    expect(await cleaned()).toBe(1); // not at once
    passed = 1_000;
    expect(await cleaned()).toBe(0);
    expect(held.count()).toBe(0);
  });

  test('is removed after two idle seconds', async () => {
    held.finish((await write('fra1')).name);
    passed = 1_999;
    expect(await cleaned()).toBe(1);
    passed = 2_000;
    expect(await cleaned()).toBe(0);
  });
});

test('an intent that the API server stores after the timeout is removed', async () => {
  const { create } = claims;
  let late: Parameters<typeof create> | undefined;
  const lost = createHeldIntents({ ...options(), claims: { ...claims, create: lose } });
  function lose(...call: Parameters<typeof create>): Promise<never> {
    late = call;
    return Promise.reject(new Error('timeout'));
  }
  const looks = async () => {
    lost.clean();
    await new Promise(setImmediate);
    return claims.asked.filter((call) => call.startsWith('read')).length;
  };
  const holding = lost.hold([target()]);
  await expect(holding?.stored()).rejects.toThrow('timeout');
  holding?.end(undefined);
  expect(await looks()).toBe(1);
  if (late === undefined) throw new Error('nothing was created');
  await create(...late);
  expect([claims.stored.size, await looks()]).toEqual([1, 1]); // not at once
  passed = 1_000;
  await looks();
  expect([claims.stored.size, lost.count()]).toEqual([0, 0]);
});

test('a write that adds several targets needs a separate intent', () => {
  expect(held.hold([target('a'), target('b')])).toBeUndefined();
  expect([held.count(), claims.asked]).toEqual([0, []]);
  expect(held.hold([target('a')])).toBeDefined();
  expect(held.hold([target('a'), target('b')])).toBeDefined(); // only one is new
});

test('above the limit, or if deletions are not seen, a write needs a separate intent', async () => {
  for (const name of ['a', 'b', 'c']) await write(name);
  expect(held.hold([target('d')])).toBeUndefined();
  expect(held.hold([target('a'), target('c')])).toBeDefined();
  seesDeletions = false;
  expect(held.hold([target('a')])).toBeUndefined();
});
