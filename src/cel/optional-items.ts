import { tokensOf } from './source.ts';

interface OptionalItems {
  /** The source with a space for each mark, so that everything stays where it was. */
  readonly source: string;
  /** Where the marks stood. */
  readonly marks: readonly number[];
}

const WORD = /^[\w"']/;

/**
 * The library's parser knows `x.?y` and `x[?i]`, but not the optional items of lists and maps: `[?x]`, `{?'k': x}`. This takes
 * their question marks out; the parsed list tells by the places which of its items they belong to.
 */
export function liftOptionalItems(source: string): OptionalItems {
  if (!source.includes('?')) return { source, marks: [] };
  const marks: number[] = [];
  const open: string[] = [];
  let last = '';
  for (const { text, at } of tokensOf(source)) {
    if (text === '?' && startsItem(last, open.at(-1))) marks.push(at);
    if (text === '[') open.push(isOperand(last) ? 'index' : 'list');
    else if (text === '{' || text === '(') open.push(text);
    else if (text === ']' || text === '}' || text === ')') open.pop();
    last = text;
  }
  const mark = new Set(marks);
  return {
    source: source.replaceAll('?', (character, at: number) => (mark.has(at) ? ' ' : character)),
    marks,
  };
}

const startsItem = (last: string, container: string | undefined) =>
  (container === 'list' && (last === '[' || last === ',')) ||
  (container === '{' && (last === '{' || last === ','));

/** After an operand a bracket is an index, elsewhere it opens a list. */
const isOperand = (last: string) =>
  last === ')' || last === ']' || last === '}' || (WORD.test(last) && last !== 'in');
