import { CelError } from '../cel-error.ts';
import { matching } from '../frame.ts';
import { compilePattern } from '../regular-expression.ts';
import { define } from './define.ts';

function compiled(pattern: string) {
  try {
    return compilePattern(pattern);
  } catch (cause) {
    throw new CelError(`Illegal regex: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** An empty match right behind the match before it does not count, as in Go. */
function findAll(text: string, pattern: string, limit = -1n): readonly string[] {
  const matcher = compiled(pattern).matcher(text);
  const found: string[] = [];
  let end = -1;
  while ((limit < 0n || found.length < limit) && matcher.find()) {
    if (matcher.start() !== matcher.end() || matcher.start() !== end) found.push(matcher.group() ?? '');
    end = matcher.end();
  }
  return found;
}

const cost = (text: string, pattern: string) => 1 + matching(text, pattern);

/** Patterns are RE2, so that none takes longer than the text is long. */
export const regex = [
  define('<string>.find(string): string', (text, pattern) => findAll(text, pattern, 1n)[0] ?? '', cost),
  define('<string>.findAll(string): list<string>', (text, pattern) => findAll(text, pattern), cost),
  define('<string>.findAll(string, int): list<string>', findAll, cost),
];
