/**
 * Freezes a value and everything in it. Goes by a list of its own rather than by recursion: users can nest objects ten
 * thousand levels deep, and the stack cannot.
 */
export function deepFreeze<T>(value: T): T {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue;
    Object.freeze(next);
    for (const inner of Object.values(next)) left.push(inner);
  }
  return value;
}
