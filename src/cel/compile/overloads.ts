import { CelCostError, CelError, noSuchOverload } from '../cel-error.ts';
import { type CallCost, costOfCall, ONE } from './call-cost.ts';
import type { Compiler } from './compiler.ts';
import { attempt, count, type Frame, type Step } from '../frame.ts';
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
export function callStep(
  name: string,
  { candidates }: Resolution,
  steps: readonly Step[],
  isFree: boolean,
): Step {
  const [first, ...others] = candidates;
  const [left, right, ...more] = steps;
  const cost = isFree ? () => 0 : costOfCall(name, candidates);
  if (first !== undefined && left !== undefined && more.length === 0) {
    if (first.tests.includes(ANY_VALUE)) return operatorStep(first, cost, left, right);
    if (others.length === 0) {
      return right === undefined
        ? unaryStep(name, first, cost, left)
        : binaryStep(name, first, cost, left, right);
    }
  }
  return (frame) => {
    const parts = steps.map((step) => step(frame));
    count(frame, cost(parts[0], parts[1], parts[2]));
    for (const { tests, run } of candidates) {
      if (parts.every((part, index) => tests[index]?.(part))) return run(frame, ...parts);
    }
    throw mismatch(name, parts);
  };
}

function operatorStep({ run }: CelFunction, cost: CallCost, left: Step, right: Step | undefined): Step {
  if (right === undefined) return unaryStep('', { tests: [ANY_VALUE], run }, cost, left);
  return binaryStep('', { tests: [ANY_VALUE, ANY_VALUE], run }, cost, left, right);
}

function unaryStep(
  name: string,
  { tests: [test = ANY_VALUE], run }: Pick<CelFunction, 'tests' | 'run'>,
  cost: CallCost,
  step: Step,
): Step {
  return (frame) => {
    let value: unknown;
    try {
      value = step(frame);
    } catch (error) {
      throw failed(error, frame, cost);
    }
    count(frame, cost === ONE ? 1 : cost(value));
    if (test(value)) return run(frame, value);
    throw mismatch(name, [value]);
  };
}

function binaryStep(
  name: string,
  { tests: [test = ANY_VALUE, otherTest = ANY_VALUE], run }: Pick<CelFunction, 'tests' | 'run'>,
  cost: CallCost,
  left: Step,
  right: Step,
): Step {
  return (frame) => {
    let value: unknown;
    let other: unknown;
    try {
      value = left(frame);
    } catch (error) {
      throw failed(error, frame, cost, right);
    }
    try {
      other = right(frame);
    } catch (error) {
      throw failed(error, frame, cost);
    }
    count(frame, cost === ONE ? 1 : cost(value, other));
    if (test(value) && otherTest(other)) return run(frame, value, other);
    throw mismatch(name, [value, other]);
  };
}

/** cel-go evaluates and counts all parts of a call, also if one fails. @returns the error */
function failed(error: unknown, frame: Frame, cost: CallCost, next?: Step): unknown {
  if (!(error instanceof CelError) || error instanceof CelCostError) return error;
  if (next !== undefined) attempt(frame, next);
  count(frame, cost(undefined, undefined));
  return error;
}

/** For `size`, the message of cel-go contains only the name. */
const mismatch = (name: string, parts: readonly unknown[]) =>
  noSuchOverload(name === 'size' ? name : `${name}(${parts.map(typeNameOf).join(', ')})`);
