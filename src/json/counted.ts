/** A number with its noun: `1 violation`, `2 policies`. @param one the singular of a noun with a regular plural */
export function counted(count: number, one: string): string {
  if (count === 1) return `1 ${one}`;
  return `${count} ${/[^aeiou]y$/.test(one) ? `${one.slice(0, -1)}ies` : `${one}s`}`;
}

/** `a, b and 3 more`. @param limit how many of them are named */
export function someOf(all: readonly string[], limit = 6): string {
  const shown = all.slice(0, limit).join(', ');
  return all.length > limit ? `${shown} and ${all.length - limit} more` : shown;
}
