import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';

import { compilePattern } from '../../../cel/regular-expression.ts';
import type { SchemaCheck, CompiledMatch, CompiledPolicy } from '../compiled-policy.ts';
import {
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '../../../json/json.ts';
import { messageOf } from '../../../json/abort.ts';
import { toCanonicalText } from '../../../json/json-text.ts';
import { explainErrors } from './explain.ts';
import type { Violation } from '../violation.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { requireWrites, type Report } from '../problem.ts';
import { writes, type AdmissionRequest } from '../../review/request.ts';

export class InvalidSchema extends Error {
  override name = 'InvalidSchema';
}

/** RE2 runs in linear time and is what the API server uses. */
const re2 = Object.assign((pattern: string) => compilePattern(pattern), { code: 're2' });

/** In an object with more values, only the first error is reported: an object can have a million errors. */
const MOST_VALUES_TOLD_IN_FULL = 20_000;

/** @throws InvalidSchema for an unknown keyword or format, a pattern that is not RE2, or a dangling $ref */
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
        return explainErrors(first.errors ?? [], value).map((flaw) => ({ ...flaw, hasMore: true }));
      all ??= compileWith(schema, true);
      return all(value) ? [] : explainErrors(all.errors ?? [], value);
    } catch (error) {
      // the stack overflowed: the schema recurses and the object is deeply nested
      if (!(error instanceof RangeError)) throw error;
      const message = 'is nested too deeply to be checked: flatten it';
      return [{ field: '', reason: 'FieldValueInvalid', message, hasMore: true }];
    }
  };
}

/** Every object inherits these members. A schema that names `constructor` means only a key in the user's object. */
const INHERITED: ReadonlySet<unknown> = new Set(Object.getOwnPropertyNames(Object.prototype));

function namesInheritedMember(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return INHERITED.has(schema);
  return Object.entries(schema).some(([key, value]) => INHERITED.has(key) || namesInheritedMember(value));
}

function compileWith(schema: object, allErrors: boolean): ValidateFunction {
  try {
    dialect ??= createAjv({ ownProperties: true });
    // throws if invalid; returns a promise only for asynchronous meta-schemas
    void dialect.validateSchema(schema, true);
    // Checking each key for inheritance doubles the validation time, so only schemas that need it do so.
    return createAjv({ allErrors, ownProperties: namesInheritedMember(schema) }).compile(schema);
  } catch (error) {
    throw new InvalidSchema(messageOf(error), { cause: error });
  }
}

/** Shared: compiling the meta-schema takes most of the time to compile a policy. */
let dialect: Ajv2020 | undefined;

function createAjv(options: { readonly allErrors?: boolean; readonly ownProperties: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    ...options,
    validateSchema: false, // `dialect` has validated the schema
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

/** Compares canonical JSON text: Ajv compares all pairs, which takes minutes for a list of 100,000 objects. */
const areUnique = (items: readonly JsonValue[]): boolean =>
  new Set(items.map(toCanonicalText)).size === items.length;

/** Ajv does not accept a bigint as a number, so it gets a double. The API server also compares bounds with doubles. */
const withDoubles = (value: JsonValue): JsonValue => (holdsBigint(value) ? toDoubles(value) : value);

/** This loop visits every value of every object, so it queues only containers. */
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

/** With one of these keywords, a schema can accept what a nested schema rejects. */
const CONTRARY = ['not', 'if', 'oneOf', 'maxContains', 'unevaluatedItems', 'unevaluatedProperties'];

/** Ajv applies these keywords only to numbers, and it does not count a bigint as a number. */
const NUMERIC = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];

/** Whether every keyword that constrains a number rejects a bigint. Then Ajv can be trusted when it accepts an object. */
export function isSafeWithBigints(schema: unknown): boolean {
  if (isJsonArray(schema)) return schema.every(isSafeWithBigints);
  if (!isJsonObject(schema)) return true;
  const has = (keyword: string) => Object.hasOwn(schema, keyword);
  if (CONTRARY.some(has) || (NUMERIC.some(has) && !has('type'))) return false;
  return Object.values(schema).every(isSafeWithBigints);
}

export function compileSchema(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  report: Report,
): SchemaCheck | undefined {
  if (validate?.schema === undefined) return undefined;
  requireWrites(match, 'spec.validate.schema would never be checked: add them', report);
  try {
    return compileJsonSchema(validate.schema);
  } catch (error) {
    if (!(error instanceof InvalidSchema)) throw error;
    report('spec.validate.schema', error.message, 'InvalidSchema');
    return undefined;
  }
}

export function checkSchema(
  policy: CompiledPolicy,
  { operation, object }: AdmissionRequest,
): readonly Violation[] {
  if (policy.schema === undefined || object === undefined || !writes(operation)) return [];
  return policy.schema(object).map((flaw) => ({ policy, ...flaw, deferrable: 'schema' }));
}
