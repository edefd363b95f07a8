/** JSON Schema 2020-12 for objects of users, by Ajv: see `compileJsonSchema`. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { compilePattern } from '../../../cel/regular-expression.ts';
import type { SchemaCheck } from '../compiled-policy.ts';
import {
  isJsonArray,
  isJsonObject,
  stringifyJson,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '../../../json/json.ts';
import { explainErrors } from './explain.ts';

/** A schema that cannot be used; the message says what is wrong with it and where. */
export class InvalidSchema extends Error {
  override name = 'InvalidSchema';
}

/** Users' patterns run in linear time, and mean what they mean in the API server. */
const re2 = Object.assign((pattern: string) => compilePattern(pattern), { code: 're2' });

/** Beyond so many values in an object, only the first thing that is wrong is told: an object can be wrong a million times. */
const MOST_VALUES_TOLD_IN_FULL = 20_000;

/**
 * Compiles a JSON Schema.
 *
 * @throws InvalidSchema when it is none: an unknown keyword or format, a pattern that is not RE2, a $ref that leads nowhere
 */
export function compileJsonSchema(schema: object): SchemaCheck {
  const first = compileWith(schema, false);
  const isSafe = isSafeWithBigints(schema);
  let all: ValidateFunction | undefined;
  return (object) => {
    try {
      if (isSafe && first(object)) return [];
      const value = withDoubles(object as JsonValue); // objects of the API are JSON
      if (first(value)) return [];
      if (countUpTo(value, MOST_VALUES_TOLD_IN_FULL) === MOST_VALUES_TOLD_IN_FULL)
        return explainErrors(first.errors ?? [], value);
      all ??= compileWith(schema, true);
      return all(value) ? [] : explainErrors(all.errors ?? [], value);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error; // the schema recurses, and the object is nested as deeply as the stack
      return [
        { field: '', reason: 'FieldValueInvalid', message: 'is nested too deeply to be checked: flatten it' },
      ];
    }
  };
}

/** Every object inherits them: `constructor` in a schema means the key that the user wrote, and that alone. */
const INHERITED: ReadonlySet<unknown> = new Set(Object.getOwnPropertyNames(Object.prototype));

/** Whether one stands anywhere in the schema, as a key or as a value. */
function namesInheritedMember(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return INHERITED.has(schema);
  return Object.entries(schema).some(([key, value]) => INHERITED.has(key) || namesInheritedMember(value));
}

function compileWith(schema: object, allErrors: boolean): ValidateFunction {
  try {
    dialect ??= createAjv({ ownProperties: true });
    void dialect.validateSchema(schema, true); // throws; a promise it is for asynchronous meta-schemas alone
    // Asking for each key whose it is takes as long as all other checks.
    return createAjv({ allErrors, ownProperties: namesInheritedMember(schema) }).compile(schema);
  } catch (error) {
    throw new InvalidSchema(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** Knows what a schema is. To make that of the meta-schema takes milliseconds, most of what it takes to compile a policy: once is enough. */
let dialect: Ajv2020 | undefined;

function createAjv(options: { readonly allErrors?: boolean; readonly ownProperties: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    ...options,
    validateSchema: false, // `dialect` has done it
    strict: true,
    strictTypes: false, // "properties" without "type" is valid
    strictRequired: false,
    strictTuples: false,
    logger: false,
    formats: fullFormats,
    code: { regExp: re2 },
  });
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must not have duplicate items' },
    validate: (unique: boolean, items: readonly JsonValue[]) => !unique || areUnique(items),
  });
  return ajv;
}

/** By their spelling: Ajv compares each with each, which a list of 100,000 objects makes a matter of minutes. */
function areUnique(items: readonly JsonValue[]): boolean {
  return new Set(items.map((item) => stringifyJson(sorted(item)))).size === items.length;
}

function sorted(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  );
}

/** Ajv takes a bigint for no number: it sees a double in its place, with which the API server compares bounds too. */
function withDoubles(value: JsonValue): JsonValue {
  return holdsBigint(value) ? toDoubles(value) : value;
}

/** Every value of every object passes here, so only containers are kept for later. */
function holdsBigint(root: JsonValue): boolean {
  const pending: (JsonArray | JsonObject)[] = [[root]];
  for (let container = pending.pop(); container !== undefined; container = pending.pop()) {
    for (const value of isJsonArray(container) ? container : Object.values(container)) {
      if (typeof value === 'bigint') return true;
      if (typeof value === 'object' && value !== null) pending.push(value);
    }
  }
  return false;
}

function toDoubles(value: JsonValue): JsonValue {
  if (typeof value === 'bigint') return Number(value);
  if (isJsonArray(value)) return value.map(toDoubles);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toDoubles(item)]));
}

function countUpTo(value: JsonValue, most: number): number {
  const pending: JsonValue[] = [value];
  let count = 0;
  for (let item = pending.pop(); item !== undefined && count < most; item = pending.pop()) {
    count += 1;
    if (isJsonArray(item) || isJsonObject(item)) for (const child of Object.values(item)) pending.push(child);
  }
  return Math.min(count, most);
}

/** With one of these a schema can accept what another part of it refuses. */
const CONTRARY = ['not', 'if', 'oneOf', 'maxContains', 'unevaluatedItems', 'unevaluatedProperties'];
/** Ajv asks these of numbers alone, and to it a bigint is none. */
const NUMERIC = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];

/**
 * Whether Ajv is right to accept an object with bigints in it: whatever they have to satisfy has Ajv refuse them, because to it they
 * are of no type at all. Then only what it refuses needs a second look, with numbers in their place.
 *
 * Everything that is called like a keyword counts as one, also the name of a property: to be wrong costs time and nothing else.
 */
export function isSafeWithBigints(schema: unknown): boolean {
  if (isJsonArray(schema)) return schema.every(isSafeWithBigints);
  if (!isJsonObject(schema)) return true;
  const has = (keyword: string) => Object.hasOwn(schema, keyword);
  if (CONTRARY.some(has) || (NUMERIC.some(has) && !has('type'))) return false;
  return Object.values(schema).every(isSafeWithBigints);
}
