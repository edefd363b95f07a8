/** One step of a JSONPath. */
export type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'slice'; readonly from: number | undefined; readonly to: number | undefined }
  | { readonly kind: 'filter'; readonly filter: Filter };

/** What an item of a list must satisfy. */
export type Filter =
  | { readonly operator: 'exists'; readonly left: readonly Step[] }
  | { readonly operator: Comparison; readonly left: readonly Step[]; readonly right: Operand };

export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=';

export type Operand =
  | { readonly kind: 'literal'; readonly value: string | number | boolean }
  | { readonly kind: 'path'; readonly steps: readonly Step[] };

type Reader = (match: RegExpExecArray) => readonly Step[];

const numberOr = (text: string | undefined) => (text === undefined || text === '' ? undefined : Number(text));

/** Every step that there is; the first that fits is taken. */
const READERS: readonly (readonly [RegExp, Reader])[] = [
  [/\.\*/y, () => [{ kind: 'wildcard' }]],
  [/\[\s*\*\s*\]/y, () => [{ kind: 'wildcard' }]],
  [/\.((?:\\.|[^\s.,[\]$@{}\\])+)/y, ([, name = '']) => [{ kind: 'field', name: name.replaceAll('\\', '') }]],
  // In quotes too, client-go takes a dot without a backslash for the end of a name.
  [/\['([^']*)'\]/y, ([, names = '']) => parseJsonPath(`.${names}`)],
  [/\[(-?\d+)\]/y, ([, index]) => [{ kind: 'index', index: Number(index) }]],
  [/\[(-?\d*):(-?\d*)\]/y, ([, from, to]) => [{ kind: 'slice', from: numberOr(from), to: numberOr(to) }]],
  // A closing bracket or parenthesis inside of quotes does not end the filter.
  [
    /\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'()])*)\)\]/y,
    ([, text = '']) => [{ kind: 'filter', filter: parseFilter(text) }],
  ],
];

/** `.spec.list[0].x` → its steps. @throws SyntaxError */
export function parseJsonPath(path: string): readonly Step[] {
  const steps: Step[] = [];
  // `$` says the root, where a path begins anyway.
  let position = path.startsWith('$') ? 1 : 0;
  while (position < path.length) {
    const read = readStep(path, position);
    steps.push(...read.steps);
    position = read.end;
  }
  return steps;
}

function readStep(path: string, position: number): { readonly steps: readonly Step[]; readonly end: number } {
  for (const [pattern, read] of READERS) {
    pattern.lastIndex = position;
    const match = pattern.exec(path);
    const end = pattern.lastIndex; // of this match: reading it may use the same pattern again
    if (match !== null) return { steps: read(match), end };
  }
  throw new SyntaxError(
    `unrecognized JSONPath ${JSON.stringify(path)} at ${JSON.stringify(path.slice(position))}`,
  );
}

const FILTER = /^\s*@((?:"[^"]*"|'[^']*'|[^=!<>"'])*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?$/;

function parseFilter(text: string): Filter {
  const [matched, left = '', operator, right = ''] = FILTER.exec(text) ?? [];
  if (matched === undefined) throw new SyntaxError(`unrecognized filter ${JSON.stringify(text)}`);
  const steps = parseJsonPath(left);
  if (operator === undefined) return { operator: 'exists', left: steps };
  return { operator: operator as Comparison, left: steps, right: parseOperand(right) }; // the pattern takes no other
}

function parseOperand(text: string): Operand {
  if (text.startsWith('@')) return { kind: 'path', steps: parseJsonPath(text.slice(1)) };
  if (text === 'true' || text === 'false') return { kind: 'literal', value: text === 'true' };
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return { kind: 'literal', value: Number(text) };
  const [, quoted] = /^(["'])((?:\\.|(?!\1)[^\\])*)\1$/.exec(text)?.slice(1) ?? [];
  if (quoted === undefined) throw new SyntaxError(`unrecognized value ${JSON.stringify(text)} in a filter`);
  return { kind: 'literal', value: quoted.replaceAll(/\\(.)/g, '$1') };
}
