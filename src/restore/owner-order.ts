/** How many levels of owners are above an object: 0 without any. Each object of a circle counts once. */
export function depthBelow<T>(ownersOf: (one: T) => readonly T[]): (one: T) => number {
  const depths = new Map<T, number>();
  const depthOf = (one: T): number => {
    const known = depths.get(one);
    if (known !== undefined) return known;
    depths.set(one, 0); // ends circles
    const depth = ownersOf(one).reduce((most, owner) => Math.max(most, depthOf(owner) + 1), 0);
    depths.set(one, depth);
    return depth;
  };
  return depthOf;
}
