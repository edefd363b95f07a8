import { isJsonArray, type JsonValue } from '../../../json/json.ts';
import type { Cause } from '../failure.ts';
import { goFloat, invalidType, invalidValue, tooLong } from './causes.ts';
import type { JsonSchema } from './json-schema.ts';

/** Whether a keyword of the node failed at this place. */
export type Has = (keyword: keyof JsonSchema) => boolean;

export function typeCause(node: JsonSchema, name: string, value: JsonValue): Cause {
  const { format, type = [] } = node;
  // If the schema has a format, the API server reports the format instead of the type, except for strings and
  // null.
  const namesFormat = format !== undefined && typeof value !== 'string' && value !== null;
  const [first = '', second = ''] = type;
  const wanted = namesFormat ? format : first === 'integer' && second === 'string' ? 'integer,string' : first;
  const found = namesFormat ? formatName(value) : typeName(value);
  return invalidType(name, found, `${name} in body must be of type ${wanted}: ${JSON.stringify(found)}`);
}

function typeName(value: JsonValue): string {
  if (value === null) return 'null';
  if (isJsonArray(value)) return 'array';
  if (typeof value === 'bigint') return BigInt.asIntN(64, value) === value ? 'integer' : 'number';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function formatName(value: JsonValue): string {
  if (typeof value === 'bigint') return 'int64';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int64' : 'float64';
  return '';
}

/** At most one of length and pattern, plus the format. */
export function textCauses(node: JsonSchema, name: string, value: string, has: Has): readonly Cause[] {
  const ofFormat = `${name} in body must be of type ${node.format ?? ''}: ${JSON.stringify(value)}`;
  return [
    ...firstOfText(node, name, value, has),
    ...(has('format') ? [invalidType(name, value, ofFormat)] : []),
  ];
}

function firstOfText(node: JsonSchema, name: string, value: string, has: Has): readonly Cause[] {
  const invalid = (words: string) => [invalidValue(name, value, `${name} in body ${words}`)];
  if (has('maxLength')) return [tooLong(name, node.maxLength ?? 0)];
  if (has('minLength')) return invalid(`should be at least ${node.minLength ?? 0} chars long`);
  if (has('pattern')) return invalid(`should match '${node.pattern ?? ''}'`);
  return [];
}

const BOUNDS = [
  ['multipleOf', 'should be a multiple of', 'MultipleOf'],
  ['minimum', 'should be greater than or equal to', 'Minimum boundary'],
  ['exclusiveMinimum', 'should be greater than', 'Minimum boundary'],
  ['maximum', 'should be less than or equal to', 'Maximum boundary'],
  ['exclusiveMaximum', 'should be less than', 'Maximum boundary'],
] as const;

export function numberCauses(
  node: JsonSchema,
  name: string,
  value: number | bigint,
  has: Has,
): readonly Cause[] {
  const { type: [type = ''] = [], unfitBounds = [] } = node;
  const format = node.format === undefined ? '(default format)' : `with format ${node.format}`;
  const outOfRange = (what: string) =>
    invalidValue('', '', `${what} value must be of type ${type} ${format} in ${name}`);
  // The API server compares an integer with the integer part of the bound and prints that part.
  const isInteger = typeof value === 'bigint' || Number.isInteger(value);
  const shown = (bound: number, isFit: boolean) =>
    isInteger && isFit ? String(Math.trunc(bound)) : goFloat(bound);
  return [
    ...(has('format') || (has('type') && type === 'integer') ? [outOfRange('Checked')] : []),
    ...BOUNDS.flatMap(([keyword, words, what]) => {
      const isFit = !unfitBounds.includes(keyword);
      const bound = shown(node[keyword] ?? 0, isFit);
      return [
        ...(isFit ? [] : [outOfRange(what)]),
        ...(has(keyword) ? [invalidValue(name, value, `${name} in body ${words} ${bound}`)] : []),
      ];
    }),
  ];
}
