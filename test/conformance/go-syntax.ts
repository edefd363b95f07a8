/** Go prints the values of some refusals as it would write them in a program; nobody else could, and pointers differ each time. */
const STARTS_A_GO_VALUE = /(Invalid|Duplicate) value: (?=(?:\[\]|map\[|[a-z0-9]+\.[A-Z]|\{))/g;

/** `Invalid value: v1.Role{…}: why` → `Invalid value: <object>: why`. A list of texts becomes that of JSON. */
export function withoutGoSyntax(message: string): string {
  const listed = message
    .replaceAll(/\[\]string\{([^{}]*)\}/g, '[$1]')
    .replaceAll('[]string(nil)', '<object>');
  let result = '';
  let position = 0;
  for (const match of listed.matchAll(STARTS_A_GO_VALUE)) {
    const from = match.index + match[0].length;
    if (from < position) continue; // inside of a value that is gone
    result += `${listed.slice(position, from)}<object>`;
    position = endOfBraces(listed, from);
  }
  return result + listed.slice(position);
}

/** The index behind the brace that closes the first one after `from`. */
function endOfBraces(text: string, from: number): number {
  let depth = 0;
  for (let index = text.indexOf('{', from); index < text.length && index >= 0; index += 1) {
    if (
      text[index] === '{' &&
      text[index + 1] === '}' &&
      depth === 0 &&
      text.startsWith('interface {}', index - 10)
    ) {
      index += 1; // `interface {}` is the name of a type
      continue;
    }
    if (text[index] === '{') depth += 1;
    if (text[index] === '}') depth -= 1;
    if (depth === 0 && text[index] === '}') return index + 1;
  }
  return text.length;
}
