/** A fuzz target: a part of Gatehouse that reads input from others, and the properties that must hold for any input. */
import fc from 'fast-check';

import { toJsonText } from '../../src/json/json-text.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/json/json.ts';
import { prune } from '../../src/machinery/schema/prune.ts';
import type { Schema } from '../../src/machinery/schema/schema.ts';
import { validateSchema } from '../../src/machinery/schema/validate.ts';

export interface FuzzTarget {
  readonly name: string;
  /** The weight of this target: its part of all inputs, relative to the other targets. */
  readonly share: number;
  readonly run: (inputs: number, seed: number) => Promise<FuzzRun>;
  /** Tries an input that has failed before: see `past.jsonl`. @throws when a property does not hold */
  readonly again: (input: JsonValue) => Promise<void>;
}

export interface FuzzRun {
  readonly inputs: number;
  /** CPU time of the slowest input, in milliseconds. */
  readonly longest: number;
  readonly failure: FuzzFailure | undefined;
}

export interface FuzzFailure {
  readonly input: string;
  /** The same input as JSON; undefined if JSON cannot represent it. */
  readonly json: string | undefined;
  readonly error: unknown;
}

/** The maximum CPU time of an input in milliseconds. Most inputs take microseconds. */
const MOST_MS = 5_000;

/**
 * @param inputs JSON values, so that a failing input can be stored
 * @param check throws when a property does not hold
 */
export function fuzzTarget<Input extends JsonValue>(
  name: string,
  share: number,
  inputs: fc.Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
): FuzzTarget {
  let longest = 0;
  // CPU time, because other processes affect the wall-clock time.
  const timed = async (input: Input) => {
    const before = process.threadCpuUsage();
    await check(input);
    const { user, system } = process.threadCpuUsage(before);
    const took = (user + system) / 1_000;
    longest = Math.max(longest, took);
    hold(took < MOST_MS, `it took ${Math.round(took)} ms`);
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
      await timed(input as Input); // past.jsonl stores only inputs of this type
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

/** Calls `act`; returns undefined for an allowed error. Any other error is a bug and is rethrown. */
export function answerOf<T>(act: () => T, isAllowed: (error: unknown) => boolean): T | undefined {
  try {
    return act();
  } catch (error) {
    if (isAllowed(error)) return undefined;
    throw error;
  }
}

/** Built-in errors of JavaScript show a case that the code does not handle. */
export const isDeliberate = (error: unknown): boolean =>
  error instanceof Error &&
  !(error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError);

/** @param message a function if it is expensive */
export function hold(holds: boolean, message: string | (() => string)): void {
  if (!holds) throw new Error(typeof message === 'string' ? message : message());
}

/** The object that the API server would store; undefined if it would reject the object. */
export function storedAs(object: JsonValue, schema: object): JsonObject | undefined {
  const structural = schema as Schema; // a TypeBox schema is structural, because the CRD is made from it
  const { value } = prune(object, structural);
  return isJsonObject(value) && validateSchema(value, structural).length === 0 ? value : undefined;
}

/** A policy with problems is rejected, and each problem has its place and a short message. */
export function holdProblems(
  problems: readonly { readonly where: string; readonly message: string }[],
): void {
  hold(problems.length > 0, 'it is rejected without a reason');
  for (const { where, message } of problems) {
    hold(
      where.startsWith('spec') && message.trim() !== '',
      `a problem without a place: ${where}: ${message}`,
    );
    hold(message.length < 10_000, `a message of ${message.length} characters`);
  }
}
