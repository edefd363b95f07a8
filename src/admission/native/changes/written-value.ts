import { compileCel, type CelOptions, type CelVariables, onCelError } from '../../../cel/cel.ts';
import { withoutDyn, type Entry, type Expression } from '../../../cel/syntax/expression.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';
import type { CompiledPolicy } from '../../policy/compiled-policy.ts';
import { NAMED_TYPES, variablesFor } from '../variable-types.ts';

/** `value`: CEL for a value that is neither null nor a map. In JSON patches, it can be a map. */
export type Written =
  | { readonly kind: 'null' }
  | { readonly kind: 'value'; readonly text: string; readonly constant?: unknown }
  | { readonly kind: 'map'; readonly entries: ReadonlyMap<string, Written> };

export class NeedsWebhook extends Error {
  override readonly name = 'NeedsWebhook';
}

export interface Reader {
  readonly expression: Expression;
  readonly textOf: (part: Expression) => string;
  /** The type of the part in the API server. @throws NeedsWebhook if that refuses the part */
  readonly typeOf: (part: Expression) => string;
  readonly used: ReadonlySet<string>;
}

export function readerOf(policy: CompiledPolicy, source: string): Reader {
  const { expression, textOf } = parseExpression(source);
  const used = new Set<string>();
  const known = variablesFor(policy);
  const plain = (part: Expression): string => {
    const text = textOf(part);
    if (text === undefined) throw new NeedsWebhook('a part of its expression is too complex');
    used.add(text);
    return text;
  };
  return {
    expression,
    used,
    textOf: (part) => `(${plain(part)}\n)`,
    typeOf: (part) => typeOf(plain(part), known, { exactTypes: true }),
  };
}

export const typeOf = (text: string, variables: CelVariables, options: CelOptions): string =>
  onCelError(
    () => compileCel(text, variables, { uniformLiterals: true, ...options }).type,
    ({ message }) => {
      throw new NeedsWebhook(`the API server refuses its expression: ${message}`);
    },
  );

export function writtenBy(written: Expression, reader: Reader): Written {
  const expression = withoutDyn(written);
  if (expression.kind === 'map') return { kind: 'map', entries: entriesOf(expression.entries, reader) };
  if (expression.kind === 'literal' && expression.value === null) return { kind: 'null' };
  if (expression.kind === 'list') {
    if (expression.items.some(({ optional }) => optional)) throw new NeedsWebhook(OPTIONAL);
    const items = expression.items.map(({ value }) => `dyn(${valueText(writtenBy(value, reader))})`);
    return { kind: 'value', text: `[${items.join(', ')}]` };
  }
  if (!isNumber(expression) && !NAMED_TYPES.includes(reader.typeOf(expression)))
    throw new NeedsWebhook(UNTYPED);
  const constant = expression.kind === 'literal' ? { constant: expression.value } : {};
  return { kind: 'value', text: reader.textOf(expression), ...constant };
}

const OPTIONAL = 'its expression has optional entries';
const UNTYPED =
  'a value of its expression may be neither a string, a Boolean nor a number literal; write string(…) or bool(…)';

/** Larger integers become strings in the API server. */
const isNumber = (expression: Expression): boolean =>
  expression.kind === 'literal' &&
  (typeof expression.value === 'bigint'
    ? Number.isSafeInteger(Number(expression.value))
    : typeof expression.value === 'number');

function entriesOf(entries: readonly Entry[], reader: Reader): ReadonlyMap<string, Written> {
  const written = new Map<string, Written>();
  for (const { key, value, optional } of entries) {
    if (optional) throw new NeedsWebhook(OPTIONAL);
    const name = key.kind === 'literal' ? key.value : undefined;
    if (typeof name !== 'string') throw new NeedsWebhook('a key of its expression is not a string literal');
    if (written.has(name)) throw new NeedsWebhook(`its expression has two keys "${name}"`);
    written.set(name, writtenBy(value, reader));
  }
  return written;
}

export function valueText(written: Written): string {
  switch (written.kind) {
    case 'null':
      throw new NeedsWebhook('its expression writes null into a list or a new value');
    case 'value':
      return written.text;
    case 'map':
      return mapText([...written.entries].map(([key, value]) => [key, valueText(value)]));
  }
}

/** Each value is a dyn, because the API server refuses literals with several types. */
export const mapText = (entries: readonly (readonly [key: string, text: string])[]): string =>
  `{${entries.map(([key, text]) => `${JSON.stringify(key)}: dyn(${text})`).join(', ')}}`;
