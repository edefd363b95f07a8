/** Plans which faults come when. One seed determines the plan, and a failed run reports the seed. */
import { setTimeout as sleep } from 'node:timers/promises';

import { createSeeded, type Seeded } from '../seeded.ts';

/** Begins a fault, and returns a function that ends it. */
export type Begin = (chance: Seeded) => () => void;

export interface PlannedFault<Name extends string = string> {
  readonly name: Name;
  /** Since the beginning of the run, in milliseconds. */
  readonly atMs: number;
  readonly lastsMs: number;
  /** Seed for the random choices of the fault itself. */
  readonly seed: number;
}

export interface FaultPlanOptions<Name extends string> {
  readonly names: readonly Name[];
  /** Duration of the whole plan, in milliseconds: no fault starts or lasts beyond it. */
  readonly forMs: number;
  /** Minimum and maximum duration of a fault, in milliseconds. Default: 200 to 3000. */
  readonly lastsMs?: readonly [number, number];
  /** Maximum time until the next fault begins, in milliseconds; faults may overlap. Default: 1000. */
  readonly gapMs?: number;
}

const SEED_VARIABLE = 'GATEHOUSE_FAULT_SEED';

/** The seed from the environment, or a new one for each run. */
export function faultSeed(environment: NodeJS.ProcessEnv = process.env): number {
  const wanted = environment[SEED_VARIABLE];
  if (wanted === undefined || wanted === '') return Math.floor(Math.random() * 2 ** 31);
  const seed = Number(wanted);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`${SEED_VARIABLE} is a whole number`);
  return seed;
}

/** Adds the seed to the message of an error, so that the run can be reproduced. */
export async function underSeed<T>(seed: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`with ${SEED_VARIABLE}=${seed}: ${message}`, { cause });
  }
}

/** Uses each name once before it repeats any. */
export function createFaultPlan<Name extends string>(
  seed: number,
  { names, forMs, lastsMs: [least, most] = [200, 3_000], gapMs = 1_000 }: FaultPlanOptions<Name>,
): readonly PlannedFault<Name>[] {
  const seeded = createSeeded(seed);
  const plan: PlannedFault<Name>[] = [];
  let left: readonly Name[] = [];
  for (let atMs = 0; ; atMs += seeded.below(gapMs)) {
    const lastsMs = least + seeded.below(most - least + 1);
    if (atMs + lastsMs > forMs) return plan;
    if (left.length === 0) left = seeded.shuffle(names);
    const [name, ...rest] = left;
    if (name === undefined) return plan;
    left = rest;
    plan.push({ name, atMs, lastsMs, seed: seeded.below(2 ** 31) });
  }
}

/** Runs all planned faults; resolves when all have ended. */
export async function runFaultPlan<Name extends string>(
  plan: readonly PlannedFault<Name>[],
  faults: Readonly<Record<Name, Begin>>,
): Promise<void> {
  await Promise.all(
    plan.map(async ({ name, atMs, lastsMs, seed }) => {
      await sleep(atMs);
      const end = faults[name](createSeeded(seed));
      await sleep(lastsMs);
      end();
    }),
  );
}

/**
 * Random numbers for the nth event of `subject`: they stay the same however the replicas' requests interleave.
 * FNV-1a hashes the text to a number.
 */
export function chanceFor(seed: number): (subject: string) => Seeded {
  const times = new Map<string, number>();
  return (subject) => {
    const nth = times.get(subject) ?? 0;
    times.set(subject, nth + 1);
    let hash = 0x811c9dc5 ^ seed;
    for (const byte of Buffer.from(`${subject} ${nth}`)) hash = Math.imul(hash ^ byte, 0x01000193);
    return createSeeded(hash >>> 0);
  };
}
