import { CelError } from '../cel-error.ts';
import { charge, type Frame, matching } from '../frame.ts';
import { compilePattern, matches } from '../regular-expression.ts';
import { define, defineWithFrame } from './define.ts';

function compiled(pattern: string) {
  try {
    return compilePattern(pattern);
  } catch (cause) {
    throw new CelError(`Illegal regex: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

const MATCH_COST = 10;

/** Skips an empty match directly after the previous match, as Go does. */
function findAll(frame: Frame, text: string, pattern: string, limit = -1n): readonly string[] {
  charge(frame, 1 + matching(text, pattern));
  const matcher = compiled(pattern).matcher(text);
  const found: string[] = [];
  let end = -1;
  while ((limit < 0n || found.length < limit) && matcher.find()) {
    charge(frame, MATCH_COST);
    if (matcher.start() !== matcher.end() || matcher.start() !== end) found.push(matcher.group() ?? '');
    end = matcher.end();
  }
  return found;
}

const finds = [
  defineWithFrame(
    '<string>.find(string): string',
    (frame, text, pattern) => findAll(frame, text, pattern, 1n)[0] ?? '',
  ),
  defineWithFrame('<string>.findAll(string): list<string>', findAll),
  defineWithFrame('<string>.findAll(string, int): list<string>', findAll),
];

function matchesOrFail(text: string, pattern: string): boolean {
  try {
    return matches(text, pattern);
  } catch (cause) {
    throw new CelError(cause instanceof Error ? cause.message : 'invalid regular expression', { cause });
  }
}

/** Patterns are RE2: time is linear in the length of the text. `matches` finds the pattern anywhere in the text. */
export const regex = [
  ...finds,
  define('matches(string, string): bool', matchesOrFail, matching),
  define('<string>.matches(string): bool', matchesOrFail, matching),
];
