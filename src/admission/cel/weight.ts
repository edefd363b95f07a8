const known = new WeakMap<object, number>();

/** How many values a JSON object holds, itself among them; it is counted once. */
export function weightOf(json: object): number {
  const counted = known.get(json);
  if (counted !== undefined) return counted;
  let weight = 0;
  const open: unknown[] = [json];
  while (open.length > 0) {
    const value = open.pop();
    weight += 1;
    if (typeof value === 'object' && value !== null) {
      for (const item of Object.values(value)) open.push(item);
    }
  }
  known.set(json, weight);
  return weight;
}
