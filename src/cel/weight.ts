const known = new WeakMap<object, number>();

/** How long it takes to walk through a JSON object: the values that it holds and a part of their texts; counted once. */
export function weightOf(json: object): number {
  const counted = known.get(json);
  if (counted !== undefined) return counted;
  let weight = 0;
  const open: unknown[] = [json];
  while (open.length > 0) {
    const value = open.pop();
    weight += typeof value === 'string' ? 1 + Math.floor(value.length / 50) : 1;
    if (typeof value === 'object' && value !== null) {
      for (const item of Object.values(value)) open.push(item);
    }
  }
  known.set(json, weight);
  return weight;
}
