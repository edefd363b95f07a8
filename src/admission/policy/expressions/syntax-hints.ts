/** Hints for what other languages write, and CEL does not. */
import type { CelPosition } from '../../../cel/cel.ts';

interface Habit {
  /** Matches at the position of the error, or at most two characters before it if they belong together. */
  readonly pattern: RegExp;
  readonly hint: string;
}

/** Operators whose first characters are an operator of CEL. */
const OPERATORS: readonly Habit[] = [
  { pattern: /^[=!]==$/, hint: 'CEL compares by == and !=' },
  { pattern: /^->$/, hint: 'a macro takes a name and an expression: list.all(x, x > 0)' },
];

const HABITS: readonly Habit[] = [
  { pattern: /^=>/, hint: 'a macro takes a name and an expression: list.all(x, x > 0)' },
  { pattern: /^=/, hint: 'CEL compares by ==' },
  { pattern: /^&/, hint: 'write &&' },
  { pattern: /^\|/, hint: 'write ||' },
  { pattern: /^and\b/i, hint: 'write &&' },
  { pattern: /^or\b/i, hint: 'write ||' },
  { pattern: /^[\u201C\u201D\u2018\u2019]/, hint: 'write straight quotes' },
  { pattern: /^\?\./, hint: 'an optional field is x.?field' },
  { pattern: /^;/, hint: 'an expression ends without a semicolon' },
  { pattern: /^`/, hint: 'texts have single or double quotes' },
];

export function syntaxHint(
  message: string,
  expression: string,
  { line, column }: CelPosition,
): string | undefined {
  const reserved = /^reserved identifier: (\w+)$/.exec(message)?.[1];
  if (reserved === 'namespace') return 'write object.metadata.namespace or request.namespace';
  if (message === 'invalid argument to has() macro') return 'has() takes a field, such as has(object.spec.x)';
  if (!message.startsWith('Syntax error: unexpected')) return undefined;
  const text = expression.split('\n')[line - 1] ?? '';
  if (/\bnot\s+$/i.test(text.slice(0, column - 1))) return 'write !';
  const found = [column - 3, column - 2].map((at) => text.slice(Math.max(0, at), column));
  const operator = OPERATORS.find(({ pattern }) => found.some((rest) => pattern.test(rest)));
  return (operator ?? HABITS.find(({ pattern }) => pattern.test(text.slice(column - 1))))?.hint;
}
