/** Random schedules of crashes, stale reads and two leaders, with a cloud that fails: the end state never differs. */
import { join } from 'node:path';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { startFakeCloud } from '../../deploy/examples/machines/fake-cloud.ts';
import { createBrake } from '../../src/controllers/brake.ts';
import { compileController, type CompiledController } from '../../src/controllers/compile-controller.ts';
import { createMemory } from '../../src/controllers/memory-world.ts';
import { runPass, type PassResult } from '../../src/controllers/pass.ts';
import type { Settled } from '../../src/controllers/pass-state.ts';
import type { ControllerWorld } from '../../src/controllers/world.ts';
import { loadModules } from '../../src/runtime/handlers/load-handlers.ts';
import { createSeeded, faultSeed, type Seeded } from '../support/seeded.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';

const SCHEDULES = 200;
const STEPS = 12;
const ROOT = join(import.meta.dirname, '..', '..');
const seed = faultSeed({ GATEHOUSE_FAULT_SEED: '1', ...process.env });

let cloud: Awaited<ReturnType<typeof startFakeCloud>>;
let cloudFault: () => 'before' | 'after' | undefined | Promise<undefined> = () => undefined;

beforeAll(async () => {
  cloud = await startFakeCloud({ fails: () => cloudFault() });
  process.env.CLOUD_URL = cloud.url;
});
afterAll(() => cloud.stop());

type Memory = ReturnType<typeof createMemory>;

/** A process that reconciles. It dies at a random write, or in a random call. */
interface Leader {
  readonly settled: Settled;
  readonly life: AbortController;
  /** The versions of the object that its store may still show. */
  seen: KubeObject[];
}

const newLeader = (memory: Memory): Leader => {
  const now = memory.object();
  return { settled: new Map(), life: new AbortController(), seen: now === undefined ? [] : [now] };
};

const WRITES = ['apply', 'remove', 'setFinalizers', 'patchStatus'] as const;

/** The world of one leader. Each write may fail, or end the process before or after it. */
function harmed({ world }: Memory, leader: Leader, chance: Seeded, isCalm: () => boolean): ControllerWorld {
  const alive = () => leader.life.signal.throwIfAborted();
  const harm =
    <Args extends readonly unknown[], Result>(write: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      alive();
      const luck = isCalm() ? 1 : chance.next();
      if (luck < 0.5) await turn(); // the other leader may be faster
      if (luck < 0.08) leader.life.abort(new Error('killed before the write'));
      alive();
      if (luck < 0.14) throw new Error('the API server answers 500');
      const result = await write(...args);
      if (luck < 0.22) leader.life.abort(new Error('killed after the write'));
      if (luck < 0.26) throw new Error('the API server answers 504');
      alive();
      return result;
    };
  const writes = Object.fromEntries(WRITES.map((name) => [name, harm(world[name] as never)]));
  return { ...world, ...writes };
}

/** One schedule: creates the object, changes it while everything fails, then deletes it. */
async function runSchedule(compiled: CompiledController, chance: Seeded): Promise<void> {
  const memory = createMemory(compiled, { object: OBJECT });
  let calm = false;
  let leaders = [newLeader(memory)];
  cloudFault = () => {
    const luck = calm ? 1 : chance.next();
    if (luck < 0.1) return 'before';
    if (luck < 0.2) return 'after';
    return luck < 0.3 ? sleep(5) : undefined; // the caller may die meanwhile
  };
  const reconcile = async (leader: Leader): Promise<PassResult | undefined> => {
    const { settled, life } = leader;
    const { signal } = life;
    const world = harmed(memory, leader, chance, () => calm);
    const now = memory.object();
    const shown = !calm && leader.seen.length > 0 && chance.chance(0.3) ? chance.pick(leader.seen) : now;
    if (!calm && chance.chance(0.1))
      setTimeout(() => life.abort(new Error('killed in a call')), chance.below(6));
    const brake = createBrake();
    const memories = { settled, brake, blocked: new Set<string>() };
    const pass = { controller: compiled, world, ...memories, deadline: signal, signal };
    const result = await runPass(pass, shown).catch(() => undefined);
    // Its store sees its own writes before the next pass, and perhaps an older version of those of others.
    const after = memory.object();
    leader.seen = after === undefined ? [] : [after];
    return result;
  };
  const step = async () => {
    leaders = leaders.filter(({ life }) => !life.signal.aborted);
    if (leaders.length === 0 || (leaders.length === 1 && chance.chance(0.2))) leaders.push(newLeader(memory));
    await Promise.all(leaders.map(reconcile));
    expect(cloud.machines().length).toBeLessThanOrEqual(1);
  };
  const settle = async () => {
    calm = true;
    for (let pass = 0; pass < 10; pass += 1) {
      const before = memory.writes.length;
      const result = await reconcile(newLeader(memory));
      if (memory.object() === undefined || (result?.kind === 'done' && memory.writes.length === before))
        break;
    }
    calm = false;
  };
  for (let count = 0; count < STEPS; count += 1) {
    await step();
    if (chance.chance(0.2)) memory.replace(changed(memory.object() ?? OBJECT, chance));
  }
  await settle();
  expectSettled(memory);
  const last = memory.object() ?? OBJECT;
  memory.replace({ ...last, metadata: { ...last.metadata, deletionTimestamp: new Date().toISOString() } });
  for (let count = 0; count < STEPS && memory.object() !== undefined; count += 1) await step();
  await settle();
  await sleep(6); // calls that are still on their way
  expect(memory.object()).toBeUndefined();
  expect(cloud.machines()).toEqual([]);
}

const OBJECT = {
  apiVersion: 'cloud.example.com/v1',
  kind: 'Machine',
  metadata: { name: 'web', namespace: 'shop' },
  spec: { size: 'small' },
};

function changed(now: KubeObject, chance: Seeded): KubeObject & { readonly spec: object } {
  const { metadata } = now;
  return {
    ...now,
    metadata: { ...metadata, generation: (metadata?.generation ?? 1) + 1 },
    spec: { size: chance.pick(['small', 'large']) },
  };
}

function expectSettled(memory: Memory): void {
  const { metadata, spec, status } = memory.object() as KubeObject & { spec: object; status: object };
  expect(cloud.machines()).toMatchObject([spec]);
  expect(status).toMatchObject({
    machineId: cloud.machines()[0]?.id,
    observedGeneration: metadata?.generation,
    conditions: expect.arrayContaining([
      expect.objectContaining({ type: 'Ready', status: 'True' }),
    ]) as unknown,
  });
  expect(status).not.toHaveProperty('progress');
}

test(`a Machine has one machine after ${SCHEDULES} schedules with GATEHOUSE_FAULT_SEED=${seed}`, async () => {
  const { controllers } = await loadModules('deploy/examples/machines/controllers', ROOT);
  const [first] = controllers;
  if (first === undefined) throw new Error('the example lacks a controller');
  const compiled = compileController(first.name, first.controller);
  for (let number = 0; number < SCHEDULES; number += 1)
    await runSchedule(compiled, createSeeded(seed + number));
});
