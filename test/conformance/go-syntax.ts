const STARTS_A_GO_VALUE = /(?:Invalid|Duplicate) value: (?=\[\]|map\[|[a-z0-9]+\.[A-Z]|\{)/g;

/**
 * Go prints the values of some refusals as it would write them in a program, addresses of pointers included:
 * `Invalid value: v1.Role{…}: why` → `Invalid value: <object>: why`. A list of texts becomes that of JSON.
 */
export function withoutGoSyntax(message: string): string {
  const readable = message
    .replaceAll('interface {}', 'any')
    .replaceAll(/\[\]string\{([^{}]*)\}/g, '[$1]')
    .replaceAll('[]string(nil)', '<object>');
  let result = '';
  let position = 0;
  for (const match of readable.matchAll(STARTS_A_GO_VALUE)) {
    const from = match.index + match[0].length;
    if (from < position) continue; // inside of a value that is gone
    result += `${readable.slice(position, from)}<object>`;
    position = endOfBraces(readable, from);
  }
  return result + readable.slice(position);
}

/** The index behind the brace that closes the first one after `from`. */
function endOfBraces(text: string, from: number): number {
  let depth = 0;
  for (let index = text.indexOf('{', from); index >= 0 && index < text.length; index += 1) {
    if (text[index] === '{') depth += 1;
    if (text[index] === '}') depth -= 1;
    if (depth === 0) return index + 1;
  }
  return text.length;
}
