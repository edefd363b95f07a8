import { CelError } from '../cel-error.ts';
import { matching } from '../frame.ts';
import { matches as isMatch } from '../regular-expression.ts';
import { define } from './define.ts';

function matchesOrFail(text: string, pattern: string): boolean {
  try {
    return isMatch(text, pattern);
  } catch (cause) {
    throw new CelError(cause instanceof Error ? cause.message : 'invalid regular expression', { cause });
  }
}

/** Whether the pattern occurs anywhere in the text. */
export const matches = [
  define('matches(string, string): bool', matchesOrFail, matching),
  define('<string>.matches(string): bool', matchesOrFail, matching),
];
