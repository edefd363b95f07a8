import { noSuchOverload } from './cel-error.ts';
import type { Compiler } from './compiler.ts';
import type { Step } from './frame.ts';
import type { CelFunction } from './library/define.ts';
import { isSameType } from './solver.ts';
import { type CelType, DYN, showType } from './type.ts';
import { typeNameOf } from './values.ts';

/** The overloads of a function that may be meant by a call, and the type that the call has then. */
export interface Resolution {
  readonly type: CelType;
  readonly candidates: readonly CelFunction[];
}

/**
 * @param types of the receiver, if it is a member's call, and of the arguments
 * @throws CelError when there is no overload for them
 */
export function resolveOverloads(
  name: string,
  overloads: readonly CelFunction[],
  types: readonly CelType[],
  at: number,
  { solver, fail }: Compiler,
  member = false,
): Resolution {
  const candidates: CelFunction[] = [];
  let result: CelType | undefined;
  for (const overload of overloads) {
    const [own = DYN, ...parameters] = solver.instantiate([overload.result, ...overload.parameters]);
    if (!solver.assign(parameters, types)) continue;
    candidates.push(overload);
    const type = solver.resolve(own);
    result = result === undefined || isSameType(result, type) ? type : DYN;
  }
  if (result !== undefined) return { type: result, candidates };
  const [receiver = '', ...rest] = types.map((type) => showType(solver.resolve(type)));
  const applied = member ? `${receiver}.(${rest.join(', ')})` : `(${[receiver, ...rest].join(', ')})`;
  throw fail(`found no matching overload for '${name}' applied to '${applied}'`, at);
}

/** Runs the first of the overloads that the values fit. */
export function callStep(name: string, { candidates }: Resolution, steps: readonly Step[]): Step {
  const [only, ...others] = candidates;
  const [first, second, ...more] = steps;
  if (only !== undefined && others.length === 0 && more.length === 0) {
    if (first !== undefined && second !== undefined) return binaryStep(name, only, first, second);
    if (first !== undefined) return unaryStep(name, only, first);
  }
  return (frame) => {
    const parts = steps.map((step) => step(frame));
    for (const { tests, run } of candidates) {
      if (parts.every((part, index) => tests[index]?.(part))) return run(frame, parts);
    }
    throw mismatch(name, parts);
  };
}

function unaryStep(name: string, { tests: [test], run }: CelFunction, step: Step): Step {
  return (frame) => {
    const value = step(frame);
    if (test?.(value) === true) return run(frame, [value]);
    throw mismatch(name, [value]);
  };
}

function binaryStep(name: string, { tests: [test, otherTest], run }: CelFunction, step: Step, other: Step): Step {
  return (frame) => {
    const parts = [step(frame), other(frame)];
    if (test?.(parts[0]) === true && otherTest?.(parts[1]) === true) return run(frame, parts);
    throw mismatch(name, parts);
  };
}

/** Of `size` cel-go tells only the name. */
const mismatch = (name: string, parts: readonly unknown[]) =>
  noSuchOverload(name === 'size' ? name : `${name}(${parts.map(typeNameOf).join(', ')})`);
