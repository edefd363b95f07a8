const STARTS_A_VALUE = /(?:Invalid|Duplicate) value: (?=\[|\{|map\[|[a-z0-9]+\.[A-Z])/g;
const NAME_OF_A_TYPE = /(?:\[\]|map\[\w*\]|\*)*[\w.]*(?=\{)/y;

/**
 * Some errors print a whole object: in Go syntax with pointer addresses, or as JSON in later releases. Both become
 * `Invalid value: <object>: why`. A list of strings within a sentence becomes JSON.
 */
export function withoutGoSyntax(message: string): string {
  const readable = message
    .replaceAll('interface {}', 'any')
    .replaceAll('[]string(nil)', '[]')
    .replaceAll(/\[\]string\{([^{}]*)\}/g, '[$1]')
    .replaceAll(/Invalid value: null\b/g, 'Invalid value: []');
  let result = '';
  let position = 0;
  for (const match of readable.matchAll(STARTS_A_VALUE)) {
    const from = match.index + match[0].length;
    if (from < position) continue; // inside a value that is already removed
    result += `${readable.slice(position, from)}<object>`;
    position = endOfValue(readable, from);
  }
  return result + readable.slice(position);
}

/** The index after the value that begins at `from`: after the bracket that closes its first bracket. */
function endOfValue(text: string, from: number): number {
  NAME_OF_A_TYPE.lastIndex = from;
  const start = from + (NAME_OF_A_TYPE.exec(text)?.[0].length ?? 0);
  let depth = 0;
  for (let index = start; index < text.length; index += 1) {
    if ('{['.includes(text.charAt(index))) depth += 1;
    if ('}]'.includes(text.charAt(index))) depth -= 1;
    if (depth === 0) return index + 1;
  }
  return text.length;
}
