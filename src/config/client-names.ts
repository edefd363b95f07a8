/** Parses comma-separated names of client certificates. Rejects patterns, because names are compared literally. */
export function parseClientNames(value: string): readonly string[] {
  const names = value
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  for (const name of names) {
    if (name.startsWith('.') || name.includes('*'))
      throw new Error(`"${name}" is a pattern, and names are compared as they are`);
  }
  return [...new Set(names)];
}
