import { RE2JS } from 're2js';

/** More patterns than the policies and schemas of a cluster have. Patterns in user data cannot exceed it. */
const MOST_KEPT = 1000;
/** The limit for all cached patterns together: one pattern with counted repetitions can have a thousand steps. */
const MOST_STEPS = 100_000;
const compiled = new Map<string, RE2JS>();
let steps = 0;

/** Linear in the length of the text. @throws Error if the pattern is not RE2 */
export const matches = (text: string, pattern: string): boolean => compilePattern(pattern).test(text);

/** @throws Error if the pattern is not RE2 */
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
