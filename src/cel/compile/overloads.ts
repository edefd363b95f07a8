import { noSuchOverload } from '../cel-error.ts';
import type { Compiler } from './compiler.ts';
import type { Step } from '../frame.ts';
import type { CelFunction } from '../library/define.ts';
import { ANY_VALUE } from '../library/operators.ts';
import { isSameType } from '../types/solver.ts';
import { type CelType, DYN, showType } from '../types/type.ts';
import { typeNameOf } from '../values/values.ts';

/** The overloads that may match a call, and the resulting type. */
export interface Resolution {
  readonly type: CelType;
  readonly candidates: readonly CelFunction[];
}

/** The parts of a call that select the overload. */
export interface Called {
  readonly name: string;
  /** Whether the first type is the type of a receiver. */
  readonly member: boolean;
  readonly types: readonly CelType[];
  readonly at: number;
}

/** @throws CelError if no overload matches the types */
export function resolveOverloads(
  { name, member, types, at }: Called,
  overloads: readonly CelFunction[],
  { solver, fail }: Compiler,
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

/** Runs the first overload that matches the values. */
export function callStep(name: string, { candidates }: Resolution, steps: readonly Step[]): Step {
  const [first, ...others] = candidates;
  const [left, right, ...more] = steps;
  if (first !== undefined && left !== undefined && more.length === 0) {
    if (first.tests.includes(ANY_VALUE)) return operatorStep(first, left, right);
    if (others.length === 0) {
      return right === undefined ? unaryStep(name, first, left) : binaryStep(name, first, left, right);
    }
  }
  return (frame) => {
    const parts = steps.map((step) => step(frame));
    for (const { tests, run } of candidates) {
      if (parts.every((part, index) => tests[index]?.(part))) return run(frame, ...parts);
    }
    throw mismatch(name, parts);
  };
}

function operatorStep({ run }: CelFunction, left: Step, right: Step | undefined): Step {
  if (right === undefined) return (frame) => run(frame, left(frame));
  return (frame) => run(frame, left(frame), right(frame));
}

function unaryStep(name: string, { tests: [test = ANY_VALUE], run }: CelFunction, step: Step): Step {
  return (frame) => {
    const value = step(frame);
    if (test(value)) return run(frame, value);
    throw mismatch(name, [value]);
  };
}

function binaryStep(
  name: string,
  { tests: [test = ANY_VALUE, otherTest = ANY_VALUE], run }: CelFunction,
  left: Step,
  right: Step,
): Step {
  return (frame) => {
    const value = left(frame);
    const other = right(frame);
    if (test(value) && otherTest(other)) return run(frame, value, other);
    throw mismatch(name, [value, other]);
  };
}

/** For `size`, the message of cel-go contains only the name. */
const mismatch = (name: string, parts: readonly unknown[]) =>
  noSuchOverload(name === 'size' ? name : `${name}(${parts.map(typeNameOf).join(', ')})`);
