import { RE2JS } from 're2js';

/** Far more than the policies and schemas of a cluster hold; patterns out of user data cannot grow it further. */
const MOST_KEPT = 1000;
/** Steps of all compiled patterns together: one with counted repetitions can have a thousand. */
const MOST_STEPS = 100_000;
const compiled = new Map<string, RE2JS>();
let steps = 0;

/**
 * Whether the pattern occurs in the text, by RE2 as the API server does: linear in the text, whatever the pattern.
 *
 * @throws Error when the pattern is not RE2
 */
export function matches(text: string, pattern: string): boolean {
  return compilePattern(pattern).test(text);
}

/** @throws Error when the pattern is not RE2 */
export function compilePattern(pattern: string): RE2JS {
  const known = compiled.get(pattern);
  if (known !== undefined) return known;
  const fresh = RE2JS.compile(pattern);
  steps += fresh.programSize();
  if (compiled.size >= MOST_KEPT || steps > MOST_STEPS) {
    compiled.clear();
    steps = fresh.programSize();
  }
  compiled.set(pattern, fresh);
  return fresh;
}
