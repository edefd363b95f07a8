import { CelError } from './cel-error.ts';
import type { Call, Expression } from './expression.ts';
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
export function literalProblem({ name, target, arguments: parts }: Call): readonly [string, Expression] | undefined {
  const check = CHECKED.get(name);
  const argument = target === undefined && check === isPattern ? parts[1] : parts[0];
  if (check === undefined || argument?.kind !== 'literal' || typeof argument.value !== 'string') return undefined;
  try {
    check(argument.value);
    return undefined;
  } catch (error) {
    const why = error instanceof CelError || !(error instanceof Error) ? '' : `: ${error.message}`;
    return [`invalid ${name} argument${why}`, argument];
  }
}
