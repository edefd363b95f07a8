/** A part of Gatehouse that takes what others have written, and what has to hold whatever that is. */
import fc from 'fast-check';

import { toJsonText } from '../../src/json/json-text.ts';
import type { JsonValue } from '../../src/json/json.ts';

export interface FuzzTarget {
  readonly name: string;
  /** How much of all inputs it is given, in relation to the other targets. */
  readonly share: number;
  /** Tries `inputs` of them; the same seed makes the same ones. */
  readonly run: (inputs: number, seed: number) => Promise<FuzzRun>;
  /** Tries one that failed once: see `past.jsonl`. @throws when something does not hold */
  readonly again: (input: JsonValue) => Promise<void>;
}

export interface FuzzRun {
  readonly inputs: number;
  /** Milliseconds of the processor that the slowest input took. */
  readonly longest: number;
  readonly failure: FuzzFailure | undefined;
}

export interface FuzzFailure {
  /** The smallest input that was found to fail, as fast-check writes values. */
  readonly input: string;
  /** The same in JSON; undefined where JSON would not give it back. */
  readonly json: string | undefined;
  readonly error: unknown;
}

/** An input that takes longer is a failure, in milliseconds of the processor; most take microseconds. */
const MOST_MS = 5_000;

/**
 * @param inputs values that JSON can hold, so that one that failed can be kept
 * @param check throws when something does not hold
 */
export function fuzzTarget<Input extends JsonValue>(
  name: string,
  share: number,
  inputs: fc.Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
): FuzzTarget {
  let longest = 0;
  // Not the time on the wall: other processes have their moments.
  const timed = async (input: Input) => {
    const before = process.threadCpuUsage();
    await check(input);
    const { user, system } = process.threadCpuUsage(before);
    const took = (user + system) / 1_000;
    longest = Math.max(longest, took);
    hold(took < MOST_MS, () => `it took ${Math.round(took)} ms`);
  };
  return {
    name,
    share,
    run: async (numRuns, seed) => {
      longest = 0;
      const result = await fc.check(fc.asyncProperty(inputs, timed), { numRuns, seed });
      return {
        inputs: result.numRuns,
        longest,
        failure: result.failed ? failureOf(result.counterexample?.[0], result.errorInstance) : undefined,
      };
    },
    again: async (input) => {
      await timed(input as Input); // it was one when it was written down
    },
  };
}

function failureOf(input: JsonValue | undefined, error: unknown): FuzzFailure {
  return {
    input: fc.stringify(input),
    json: input === undefined || holdsMinusZero(input) ? undefined : toJsonText(input),
    error,
  };
}

function holdsMinusZero(value: JsonValue): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(holdsMinusZero);
  return Object.is(value, -0);
}

/** For checks: `allowed` errors are answers, any other is a bug. Undefined when it is one of them. */
export function answerOf<T>(act: () => T, isAllowed: (error: unknown) => boolean): T | undefined {
  try {
    return act();
  } catch (error) {
    if (isAllowed(error)) return undefined;
    throw error;
  }
}

/** As {@link answerOf}, for what takes its time. */
export async function laterAnswerOf<T>(
  act: () => Promise<T>,
  isAllowed: (error: unknown) => boolean,
): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (isAllowed(error)) return undefined;
    throw error;
  }
}

/** An error that somebody wrote for its reader; those that the language throws by itself tell of a case that nobody thought of. */
export const isDeliberate = (error: unknown): boolean =>
  error instanceof Error &&
  !(error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError);

/** @throws Error with `message` unless it holds */
export function hold(holds: boolean, message: () => string): void {
  if (!holds) throw new Error(message());
}
