/** A part of Gatehouse that takes what others have written, and what has to hold whatever that is. */
import fc from 'fast-check';

export interface FuzzTarget {
  readonly name: string;
  /** How much of all inputs it is given, in relation to the other targets. */
  readonly share: number;
  /** Tries `inputs` of them; the same seed makes the same ones. */
  readonly run: (inputs: number, seed: number) => Promise<FuzzRun>;
}

export interface FuzzRun {
  readonly inputs: number;
  /** Milliseconds that the slowest input took. */
  readonly longest: number;
  readonly failure: FuzzFailure | undefined;
}

export interface FuzzFailure {
  /** The smallest input that was found to fail, as fast-check writes values. */
  readonly input: string;
  readonly error: unknown;
}

/** An input that takes longer is a failure, in milliseconds; most take microseconds, and machines have bad moments. */
const MOST_MS = 10_000;

/** @param check throws when something does not hold */
export function fuzzTarget<Input>(
  name: string,
  share: number,
  inputs: fc.Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
): FuzzTarget {
  return {
    name,
    share,
    run: async (numRuns, seed) => {
      let longest = 0;
      const timed = fc.asyncProperty(inputs, async (input) => {
        const started = performance.now();
        await check(input);
        const took = performance.now() - started;
        longest = Math.max(longest, took);
        if (took > MOST_MS) throw new Error(`it took ${Math.round(took)} ms`);
      });
      const result = await fc.check(timed, { numRuns, seed });
      return {
        inputs: result.numRuns,
        longest,
        failure: result.failed
          ? { input: fc.stringify(result.counterexample?.[0]), error: result.errorInstance }
          : undefined,
      };
    },
  };
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

/** @throws Error with `message` unless it holds */
export function hold(holds: boolean, message: () => string): void {
  if (!holds) throw new Error(message());
}
