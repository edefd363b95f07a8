import { CelError } from './cel-error.ts';
import type { Call, Expression } from './syntax/expression.ts';
import { charge, type Step } from './frame.ts';
import { compilePattern } from './regular-expression.ts';
import { parseDuration, parseTimestamp } from './time.ts';

const isPattern = (pattern: string): unknown => compilePattern(pattern);

/** Functions whose argument is checked when it is written as a text: those of cel-go and, of patterns, all. */
const CHECKED: ReadonlyMap<string, (text: string) => unknown> = new Map<string, (text: string) => unknown>([
  ['duration', parseDuration],
  ['timestamp', parseTimestamp],
  ['matches', isPattern],
  ['find', isPattern],
  ['findAll', isPattern],
]);

/** What is wrong with a literal argument of the call, and where; undefined when there is nothing to say before it runs. */
export function literalProblem({
  name,
  target,
  arguments: parts,
}: Call): readonly [string, Expression] | undefined {
  const check = CHECKED.get(name);
  const argument = parts[check === isPattern && target === undefined ? 1 : 0];
  if (check === undefined || argument?.kind !== 'literal' || typeof argument.value !== 'string')
    return undefined;
  try {
    check(argument.value);
    return undefined;
  } catch (error) {
    const why = error instanceof CelError || !(error instanceof Error) ? '' : `: ${error.message}`;
    return [`invalid ${name} argument${why}`, argument];
  }
}

/** Of compiling one step of a pattern. */
const STEP_COST = 20;

/**
 * The steps of the call's receiver and arguments, where a pattern that only the values tell is charged for being compiled.
 * Whether it is still known from the last time does not count: an evaluation must always cost the same.
 */
export function withPatternCost(
  { name, target, arguments: parts }: Call,
  steps: readonly Step[],
): readonly Step[] {
  const isLiteral = parts[target === undefined ? 1 : 0]?.kind === 'literal';
  if (CHECKED.get(name) !== isPattern || isLiteral) return steps;
  return steps.map((step, index) => (index === 1 ? charged(step) : step));
}

const charged =
  (step: Step): Step =>
  (frame) => {
    const pattern = step(frame);
    if (typeof pattern === 'string') charge(frame, STEP_COST * stepsOf(pattern));
    return pattern;
  };

function stepsOf(pattern: string): number {
  try {
    return compilePattern(pattern).programSize();
  } catch {
    return pattern.length; // the call will say what is wrong with it
  }
}
