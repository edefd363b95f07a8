import type { ErrorObject } from 'ajv';

import { isJsonArray, isJsonObject, type JsonObject, type JsonValue, uniqueBy } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import {
  goFloat,
  invalidType,
  invalidValue,
  requiredValue,
  tooLong,
  tooMany,
  unsupportedValue,
  when,
} from './causes.ts';
import type { JsonSchema } from './json-schema.ts';

export function explain(
  value: JsonValue,
  root: JsonSchema,
  errors: readonly ErrorObject[],
  unchanged: (place: Place) => boolean,
): readonly Cause[] {
  const at = { value, node: root, pointer: '', name: '', keys: [], inBranch: false };
  const { causes } = visit(at, { failures: indexFailures(errors), unchanged });
  return uniqueBy(causes, ({ field, message }) => `${field} ${message}`); // like the API server
}

export type Place = readonly (string | number)[];

interface Visit {
  readonly value: JsonValue;
  readonly node: JsonSchema;
  /** A JSON pointer, as Ajv prints it. */
  readonly pointer: string;
  /** The path as kube-openapi prints it: names are joined by dots, including map keys. */
  readonly name: string;
  readonly keys: Place;
  /** Inside allOf, anyOf, oneOf or not: unchanged values there are not excused individually. */
  readonly inBranch: boolean;
}

interface Context {
  readonly failures: Failures;
  readonly unchanged: (place: Place) => boolean;
}

interface Outcome {
  readonly causes: readonly Cause[];
  /** The number of checks that applied: of several failed branches, the API server reports the one with the most. */
  readonly matches: number;
}

type Failures = ReadonlyMap<unknown, ReadonlyMap<string, readonly ErrorObject[]>>;

function indexFailures(errors: readonly ErrorObject[]): Failures {
  const failures = new Map<unknown, Map<string, ErrorObject[]>>();
  for (const error of errors) {
    const places = failures.get(error.parentSchema) ?? new Map<string, ErrorObject[]>();
    failures.set(error.parentSchema, places);
    places.set(error.instancePath, [...(places.get(error.instancePath) ?? []), error]);
  }
  return failures;
}

function failedAt(node: JsonSchema, { pointer }: Visit, { failures }: Context): Has {
  const errors = failures.get(node)?.get(pointer) ?? [];
  return (keyword) => errors.some((error) => error.keyword === keyword);
}

type Has = (keyword: keyof JsonSchema) => boolean;

/** Runs kube-openapi's validators in their order. */
function visit(at: Visit, context: Context): Outcome {
  const { value, node, name } = at;
  if (!at.inBranch && at.keys.length > 0 && context.unchanged(at.keys)) return NOTHING;
  const has = failedAt(node, at, context);
  const wrongType = when(has('type'), typeCause(node, name, value));
  const typeMatches = node.type === undefined && node.format === undefined ? 0 : has('type') ? 1 : 2;
  // Only then, because printing a large value takes long.
  const wrongEnum = has('enum') ? [unsupportedValue(name, value, node.enum ?? [])] : [];
  if (value === null) return { causes: [...wrongType, ...wrongEnum], matches: typeMatches };
  const branches = visitBranches(at, context);
  const content = visitContent(at, context, has);
  const rest = isJsonObject(value) ? [...wrongEnum, ...content.causes] : [...content.causes, ...wrongEnum];
  return {
    causes: [...wrongType, ...branches.causes, ...rest],
    matches: typeMatches + branches.matches + content.matches + 2, // plus the enum check and the value itself
  };
}

const NOTHING: Outcome = { causes: [], matches: 0 };

function visitContent(at: Visit, context: Context, has: Has): Outcome {
  const { value, node, name } = at;
  if (isJsonArray(value)) return list(at, value, context, has);
  if (isJsonObject(value)) return fields(at, value, context, has);
  if (typeof value === 'string') {
    return { causes: textCauses(node, name, value, has), matches: node.format === undefined ? 1 : 2 };
  }
  if (typeof value !== 'number' && typeof value !== 'bigint') return NOTHING;
  return { causes: numberCauses(node, name, value, has), matches: 2 };
}

const below = (at: Visit, key: string | number, value: JsonValue, node: JsonSchema): Visit => ({
  ...at,
  value,
  node,
  pointer: `${at.pointer}/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`,
  name: typeof key === 'number' ? `${at.name}[${key}]` : joined(at.name, key),
  keys: [...at.keys, key],
});

const joined = (name: string, key: string) => (name === '' ? key : `${name}.${key}`);

function list(at: Visit, items: readonly JsonValue[], context: Context, has: Has): Outcome {
  const { node, name } = at;
  const { items: each } = node;
  const outcomes =
    each === undefined ? [] : items.map((value, index) => visit(below(at, index, value, each), context));
  const size = items.length;
  const few = `${name} in body should have at least ${node.minItems ?? 0} items`;
  return {
    causes: [
      ...outcomes.flatMap(({ causes }) => causes),
      ...when(has('minItems'), invalidValue(name, size, few)),
      ...when(has('maxItems'), tooMany(name, size, node.maxItems ?? 0)),
      ...when(has('uniqueItems'), invalidValue(name, '', `${name} in body shouldn't contain duplicates`)),
    ],
    matches: total(outcomes) + 2,
  };
}

function fields(at: Visit, object: JsonObject, context: Context, has: Has): Outcome {
  const { node, name } = at;
  const entries = Object.entries(object);
  const few = `${name} in body should have at least ${node.minProperties ?? 0} properties`;
  if (has('minProperties')) return { causes: [invalidValue(name, entries.length, few)], matches: 1 };
  if (has('maxProperties'))
    return { causes: [tooMany(name, entries.length, node.maxProperties ?? 0)], matches: 1 };
  const { additionalProperties: further, properties = {}, required = [] } = node;
  const isDeclared = (key: string) => Object.hasOwn(properties, key);
  const present = new Map(entries);
  const places = [
    ...entries.flatMap(([key, value]) =>
      typeof further === 'object' && !isDeclared(key) ? [below(at, key, value, further)] : [],
    ),
    ...Object.entries(properties).flatMap(([key, schema]) => {
      const value = present.get(key);
      return value === undefined ? [] : [below(at, key, value, schema)];
    }),
  ];
  const outcomes = places.map((place) => visit(place, context));
  const missing = required.filter((key) => !present.has(key));
  return {
    causes: [
      ...outcomes.flatMap(({ causes }) => causes),
      ...missing.map((key) => requiredValue(joined(name, key))),
    ],
    matches: total(outcomes) + 1,
  };
}

function visitBranches(at: Visit, context: Context): Outcome {
  const { else: node } = at.node;
  if (node === undefined) return { causes: [], matches: 2 };
  const has = failedAt(node, at, context);
  const branch = (schema: JsonSchema) => visit({ ...at, node: schema, inBranch: true }, context);
  const about = (words: string) => invalidValue('', '', `${JSON.stringify(at.name)} ${words}`);
  const any = has('anyOf') ? (node.anyOf ?? []).map(branch) : [];
  const one = has('oneOf') ? (node.oneOf ?? []).map(branch) : [];
  const all = (node.allOf ?? []).map(branch);
  const valid = one.filter(isValid).length;
  const found = valid === 0 ? 'Found none valid' : `Found ${valid} valid alternatives`;
  const invalid = all.filter((outcome) => !isValid(outcome)).length;
  const none = invalid === all.length ? '. None validated' : '';
  return {
    causes: [
      ...when(any.length > 0, about('must validate at least one schema (anyOf)'), ...best(any)),
      ...when(one.length > 0, about(`must validate one and only one schema (oneOf). ${found}`)),
      ...when(valid === 0, ...best(one)),
      ...all.flatMap(({ causes }) => causes),
      ...when(invalid > 0, about(`must validate all the schemas (allOf)${none}`)),
      ...when(has('not'), about('must not validate the schema (not)')),
    ],
    matches: total(all) + 2,
  };
}

const isValid = ({ causes }: Outcome) => causes.length === 0;

function best(outcomes: readonly Outcome[]): readonly Cause[] {
  const most = Math.max(...outcomes.map(({ matches }) => matches));
  return outcomes.find(({ matches }) => matches === most)?.causes ?? [];
}

const total = (outcomes: readonly Outcome[]) => outcomes.reduce((sum, { matches }) => sum + matches, 0);

function typeCause(node: JsonSchema, name: string, value: JsonValue): Cause {
  const { format, type = [] } = node;
  // The API server reports the format instead of the type, except for strings and null.
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
function textCauses(node: JsonSchema, name: string, value: string, has: Has): readonly Cause[] {
  const ofFormat = `${name} in body must be of type ${node.format ?? ''}: ${JSON.stringify(value)}`;
  return [...firstOfText(node, name, value, has), ...when(has('format'), invalidType(name, value, ofFormat))];
}

function firstOfText(node: JsonSchema, name: string, value: string, has: Has): readonly Cause[] {
  const invalid = (words: string) => [invalidValue(name, value, `${name} in body ${words}`)];
  if (has('maxLength')) return [tooLong(name, node.maxLength ?? 0)];
  if (has('minLength')) return invalid(`should be at least ${node.minLength ?? 0} chars long`);
  return has('pattern') ? invalid(`should match '${node.pattern ?? ''}'`) : [];
}

const BOUNDS = [
  ['multipleOf', 'should be a multiple of', 'MultipleOf'],
  ['minimum', 'should be greater than or equal to', 'Minimum boundary'],
  ['exclusiveMinimum', 'should be greater than', 'Minimum boundary'],
  ['maximum', 'should be less than or equal to', 'Maximum boundary'],
  ['exclusiveMaximum', 'should be less than', 'Maximum boundary'],
] as const;

function numberCauses(node: JsonSchema, name: string, value: number | bigint, has: Has): readonly Cause[] {
  const { type: [type = ''] = [], unfitBounds = [] } = node;
  const format = node.format === undefined ? '(default format)' : `with format ${node.format}`;
  const outOfRange = (what: string) =>
    invalidValue('', '', `${what} value must be of type ${type} ${format} in ${name}`);
  // The API server compares an integer with the integer part of the bound and prints that part.
  const isInteger = typeof value === 'bigint' || Number.isInteger(value);
  const shown = (bound: number, isFit: boolean) =>
    isInteger && isFit ? String(Math.trunc(bound)) : goFloat(bound);
  return [
    ...when(has('format') || (has('type') && type === 'integer'), outOfRange('Checked')),
    ...BOUNDS.flatMap(([keyword, words, what]) => {
      const isFit = !unfitBounds.includes(keyword);
      const bound = shown(node[keyword] ?? 0, isFit);
      return [
        ...when(!isFit, outOfRange(what)),
        ...when(has(keyword), invalidValue(name, value, `${name} in body ${words} ${bound}`)),
      ];
    }),
  ];
}
