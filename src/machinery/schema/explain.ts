import type { ErrorObject } from 'ajv';

import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import {
  invalidValue,
  requiredValue,
  tooMany,
  unsupportedValue,
  goFloat,
  invalidType,
  tooLong,
} from './causes.ts';
import type { JsonSchema } from './json-schema.ts';

/**
 * Reports Ajv's errors with the messages and in the order of the API server.
 *
 * Ajv has found the errors. This code walks the schema as k8s.io/kube-openapi/pkg/validation does and asks for each
 * keyword whether it failed. (The order of properties is random there; here it follows the schema.)
 *
 * @param unchanged whether the value at this place is the same as before the update; its errors are then tolerated
 */
export function explain(
  value: JsonValue,
  root: JsonSchema,
  errors: readonly ErrorObject[],
  unchanged: (place: Place) => boolean,
): readonly Cause[] {
  const { causes } = visit(
    { value, node: root, pointer: '', name: '', keys: [], inBranch: false },
    {
      failures: indexFailures(errors),
      unchanged,
    },
  );
  return distinct(causes);
}

/** Names and indexes from the root. */
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

const failuresAt = (node: JsonSchema, { pointer }: Visit, { failures }: Context) =>
  failures.get(node)?.get(pointer) ?? [];

/** Runs kube-openapi's validators in their order. */
function visit(at: Visit, context: Context): Outcome {
  if (!at.inBranch && at.keys.length > 0 && context.unchanged(at.keys)) return { causes: [], matches: 0 };
  const errors = failuresAt(at.node, at, context);
  const has: Has = (keyword) => errors.some((error) => error.keyword === keyword);
  const wrongType = has('type') ? [typeCause(at.node, at.name, at.value)] : [];
  const typeMatches = at.node.type === undefined && at.node.format === undefined ? 0 : has('type') ? 1 : 2;
  const enumCause = has('enum') ? [unsupportedValue(at.name, at.value, at.node.enum ?? [])] : [];
  if (at.value === null) return { causes: [...wrongType, ...enumCause], matches: typeMatches };
  const branches = visitBranches(at, context);
  const children =
    isJsonArray(at.value) || isJsonObject(at.value) ? visitChildren(at, context, has) : visitScalar(at, has);
  return {
    causes: [...wrongType, ...branches.causes, ...children.before, ...enumCause, ...children.after],
    matches: typeMatches + branches.matches + children.matches + 2, // plus the enum check and the value itself
  };
}

interface Parts {
  readonly before: readonly Cause[];
  /** The causes that come after the enum cause. */
  readonly after: readonly Cause[];
  readonly matches: number;
}

function visitScalar({ value, node, name }: Visit, has: Has): Parts {
  if (typeof value === 'string') {
    return {
      before: textCauses(node, name, value, has),
      after: [],
      matches: node.format === undefined ? 1 : 2,
    };
  }
  if (typeof value !== 'number' && typeof value !== 'bigint') return { before: [], after: [], matches: 0 };
  return { before: numberCauses(node, name, value, has), after: [], matches: 2 };
}

function visitChildren(at: Visit, context: Context, has: Has): Parts {
  return isJsonArray(at.value)
    ? list(at, at.value, context, has)
    : isJsonObject(at.value)
      ? fields(at, at.value, context, has)
      : { before: [], after: [], matches: 0 };
}

function list(at: Visit, items: readonly JsonValue[], context: Context, has: Has): Parts {
  const { node, name, keys } = at;
  const { items: each } = node;
  const outcomes =
    each === undefined
      ? []
      : items.map((value, index) =>
          visit(
            {
              ...at,
              value,
              node: each,
              pointer: `${at.pointer}/${index}`,
              name: `${name}[${index}]`,
              keys: [...keys, index],
            },
            context,
          ),
        );
  const size = items.length;
  return {
    before: [
      ...outcomes.flatMap(({ causes }) => causes),
      ...(has('minItems')
        ? [invalidValue(name, size, `${name} in body should have at least ${node.minItems ?? 0} items`)]
        : []),
      ...(has('maxItems') ? [tooMany(name, size, node.maxItems ?? 0)] : []),
      ...(has('uniqueItems') ? [invalidValue(name, '', `${name} in body shouldn't contain duplicates`)] : []),
    ],
    after: [],
    matches: total(outcomes) + 2,
  };
}

function fields(at: Visit, object: JsonObject, context: Context, has: Has): Parts {
  const { node, name } = at;
  const size = Object.keys(object).length;
  if (has('minProperties')) {
    const detail = `${name} in body should have at least ${node.minProperties ?? 0} properties`;
    return { before: [], after: [invalidValue(name, size, detail)], matches: 1 };
  }
  if (has('maxProperties'))
    return { before: [], after: [tooMany(name, size, node.maxProperties ?? 0)], matches: 1 };
  const { additionalProperties: further, properties = {} } = node;
  const child = (key: string, value: JsonValue, schema: JsonSchema) =>
    visit(
      {
        ...at,
        value,
        node: schema,
        pointer: `${at.pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`,
        name: name === '' ? key : `${name}.${key}`,
        keys: [...at.keys, key],
      },
      context,
    );
  const entries = Object.entries(object);
  const outcomes = [
    ...(typeof further === 'object'
      ? entries
          .filter(([key]) => !Object.hasOwn(properties, key))
          .map(([key, value]) => child(key, value, further))
      : []),
    ...Object.entries(properties).flatMap(
      ([key, schema]) =>
        Object.hasOwn(object, key) ? [child(key, ownValue(object, key) as JsonValue, schema)] : [], // a field of a JSON object is JSON
    ),
  ];
  const missing = (node.required ?? []).filter((key) => !Object.hasOwn(object, key));
  return {
    before: [],
    after: [
      ...outcomes.flatMap(({ causes }) => causes),
      ...missing.map((key) => requiredValue(name === '' ? key : `${name}.${key}`)),
    ],
    matches: total(outcomes) + 1,
  };
}

function visitBranches(at: Visit, context: Context): Outcome {
  const { else: node } = at.node;
  if (node === undefined) return { causes: [], matches: 2 };
  const errors = failuresAt(node, at, context);
  const has: Has = (keyword) => errors.some((error) => error.keyword === keyword);
  const branch = (schema: JsonSchema) => visit({ ...at, node: schema, inBranch: true }, context);
  const about = (words: string) => invalidValue('', '', `${JSON.stringify(at.name)} ${words}`);
  const any = has('anyOf') ? (node.anyOf ?? []).map(branch) : [];
  const one = has('oneOf') ? (node.oneOf ?? []).map(branch) : [];
  const all = (node.allOf ?? []).map(branch);
  const valid = one.filter(isValid).length;
  const invalid = all.filter((outcome) => !isValid(outcome)).length;
  return {
    causes: [
      ...(any.length > 0 ? [about('must validate at least one schema (anyOf)'), ...best(any)] : []),
      ...(one.length > 0
        ? [
            about(
              `must validate one and only one schema (oneOf). ${valid === 0 ? 'Found none valid' : `Found ${valid} valid alternatives`}`,
            ),
            ...(valid === 0 ? best(one) : []),
          ]
        : []),
      ...all.flatMap(({ causes }) => causes),
      ...(invalid > 0
        ? [about(`must validate all the schemas (allOf)${invalid === all.length ? '. None validated' : ''}`)]
        : []),
      ...(has('not') ? [about('must not validate the schema (not)')] : []),
    ],
    matches: total(all) + 2,
  };
}

const isValid = ({ causes }: Outcome) => causes.length === 0;

/** The first outcome with the most matches. */
function best(outcomes: readonly Outcome[]): readonly Cause[] {
  const most = Math.max(...outcomes.map(({ matches }) => matches));
  return outcomes.find(({ matches }) => matches === most)?.causes ?? [];
}

const total = (outcomes: readonly Outcome[]) => outcomes.reduce((sum, { matches }) => sum + matches, 0);

/** The API server reports identical causes once. */
function distinct(causes: readonly Cause[]): readonly Cause[] {
  const seen = new Set<string>();
  return causes.filter(({ field, message }) => {
    const key = `${field} ${message}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Whether a keyword of the node failed at this place. */
type Has = (keyword: keyof JsonSchema) => boolean;

function typeCause(node: JsonSchema, name: string, value: JsonValue): Cause {
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
function textCauses(node: JsonSchema, name: string, value: string, has: Has): readonly Cause[] {
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
