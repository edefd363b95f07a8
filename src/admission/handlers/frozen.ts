/** A type with everything in it read-only, as what a handler is given but may not change. */
export type Frozen<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Frozen<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Frozen<T[Key]> }
      : T;

/**
 * Freezes JSON to the bottom and returns it. What is frozen already is taken to be so throughout, so a second call costs nothing.
 * By a list of its own rather than by recursion: users can nest objects ten thousand levels deep, and the stack cannot.
 */
export function deepFreeze<T>(value: T): Frozen<T> {
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue;
    Object.freeze(next);
    for (const inner of Object.values(next)) left.push(inner);
  }
  return value as Frozen<T>; // it has just been made so
}
