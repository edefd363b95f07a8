import { CelError } from '../../cel/cel.ts';
import { celToJson } from '../../cel/values/cel-to-json.ts';
import { isList, messageNameOf } from '../../cel/values/values.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, type ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import { childSchema, isAtomic, itemSchema, typeProblems } from '../managed-fields/shape.ts';
import { merge } from '../managed-fields/typed.ts';
import { applyJsonPatch } from '../patch/json-patch.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import type { Mutation } from './compile-policy.ts';

export class MutationFailure extends Error {
  override readonly name = 'MutationFailure';
}

export interface Target {
  readonly object: ApiObject;
  readonly type: ResourceType;
  readonly isView: boolean;
}

/** The object with the patch that a mutation returned (mutating/patch of apiserver's policy plugin). */
export function applyMutation({ patchType }: Mutation, result: unknown, target: Target): ApiObject {
  try {
    return patchType === 'JSONPatch' ? withJsonPatch(result, target) : withConfiguration(result, target);
  } catch (error) {
    if (error instanceof CelError) throw new MutationFailure(error.message, { cause: error });
    throw error;
  }
}

/** A failed `test` skips the patch. The patch of a CEL expression has one message for each operation. */
function withJsonPatch(result: unknown, { object }: Target): ApiObject {
  const operations = celToJson(result);
  let patched = toJson(object);
  for (const operation of isJsonArray(operations) ? operations : []) {
    if (!isJsonObject(operation)) throw new MutationFailure('JSON Patch: null is no operation');
    const step: JsonObject = { path: '', ...(operation.op === 'add' ? { value: null } : {}), ...operation };
    if (step.op === 'test' && step.value === null && !hasValue(patched, step)) return object;
    try {
      patched = applyJsonPatch(patched, [step]);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      if (step.op === 'test') return object;
      throw new MutationFailure(`JSON Patch: ${operationProblem(step)}`, { cause: error });
    }
  }
  const { apiVersion, kind } = object;
  return ofJson({ apiVersion, kind, metadata: {}, ...patched });
}

/** A missing value is not null here, unlike in the patch of a request. */
function hasValue(object: JsonObject, { path = '' }: JsonObject): boolean {
  try {
    return path === '' || applyJsonPatch(object, [{ op: 'remove', path }]) !== object;
  } catch (error) {
    if (error instanceof ApiFailure) return false;
    throw error;
  }
}

/** In the words of github.com/evanphx/json-patch. */
function operationProblem(operation: JsonObject): string {
  const { op, path, from } = Object.fromEntries(
    Object.entries(operation).filter(([, value]) => typeof value === 'string'),
  ) as Readonly<Record<string, string | undefined>>; // only the texts are left
  switch (op) {
    case 'add':
      return `add operation does not apply: doc is missing path: ${JSON.stringify(path)}: missing value`;
    case 'replace':
      return `replace operation does not apply: doc is missing path: ${path}: missing value`;
    case 'remove':
      return `error in remove for path: '${path}': Unable to remove nonexistent key: ${path?.split('/').at(-1)}: missing value`;
    case 'move':
    case 'copy':
      return `error in ${op} for path: '${from}': missing value`;
    case undefined:
    default:
      return `Unexpected kind: ${op ?? ''}`;
  }
}

function withConfiguration(result: unknown, { object, type, isView }: Target): ApiObject {
  const typeName = typeNameProblem(result, 'Object');
  if (typeName !== undefined) throw new MutationFailure(`type mismatch: ${typeName}`);
  const written = celToJson(result);
  const applied = {
    ...(isJsonObject(written) ? written : {}),
    apiVersion: object.apiVersion,
    kind: object.kind,
  };
  const fail = (why: string) => new MutationFailure(`error applying patch: ${why}`);
  const untyped = (why: string) => fail(`failed to convert patch object to typed object: ${why}`);
  if (isView) {
    const shown = object.apiVersion.includes('/') ? object.apiVersion : `/${object.apiVersion}`;
    throw untyped(`no corresponding type for ${shown}, Kind=${object.kind}`);
  }
  const schema = wholeSchema(type);
  const problems = [...bytesProblems(result, ''), ...typeProblems(withoutNulls(applied, schema), schema)];
  const [only] = problems;
  if (only !== undefined) throw untyped(problems.length === 1 ? only : ['errors:', ...problems].join('\n  '));
  const atomics = atomicPaths(applied, schema, '');
  if (atomics.length > 0) {
    const what = 'may not mutate atomic arrays, maps or structs';
    throw fail(`invalid ApplyConfiguration: ${what}: ${atomics.join(', ')}`);
  }
  return ofJson({
    ...(merge(toJson(object), applied, schema) as JsonObject), // of two objects
    apiVersion: apiVersionOf(type),
    kind: type.kind,
  });
}

/** The API server converts bytes for JSON Patches only. */
function bytesProblems(value: unknown, path: string): readonly string[] {
  if (value instanceof Uint8Array) {
    const bytes = Array.from(value, (byte) => `0x${byte.toString(16)}`).join(', ');
    return [`${path}: expected string, got &value.valueUnstructured{Value:[]uint8{${bytes}}}`];
  }
  return value instanceof Map
    ? [...value].flatMap(([key, item]) => bytesProblems(item, `${path}.${String(key)}`))
    : [];
}

/** Parts of an object must be named after their fields: `Object.spec` is the type of `spec`. */
function typeNameProblem(value: unknown, expected: string): string | undefined {
  if (isList(value)) return firstOf(value, (item) => typeNameProblem(item, expected));
  const name = messageNameOf(value);
  if (name === undefined) return undefined;
  if (name !== expected)
    return `unexpected type name "${name}", expected "${expected}", which matches field name path from root Object type`;
  return value instanceof Map
    ? firstOf([...value], ([field, item]) => typeNameProblem(item, `${expected}.${String(field)}`))
    : undefined;
}

function firstOf<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** For the API server, a null in a patch is the number 0 of an enumeration. */
function withoutNulls(value: JsonValue, schema: Schema): JsonValue {
  if (value === null) return schema.type === 'object' || schema.type === 'array' ? 'NULL_VALUE' : 0;
  if (isJsonArray(value)) return value.map((item) => withoutNulls(item, itemSchema(schema)));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, child]) => [
      name,
      withoutNulls(child, childSchema(schema, name) ?? ANYTHING),
    ]),
  );
}

function atomicPaths(value: JsonValue, schema: Schema, path: string): readonly string[] {
  if (!isJsonArray(value) && !isJsonObject(value)) return [];
  if (isAtomic(schema)) return [path];
  return isJsonArray(value)
    ? value.flatMap((item, index) => atomicPaths(item, itemSchema(schema), `${path}[${index}]`))
    : Object.entries(value).flatMap(([name, child]) =>
        atomicPaths(child, childSchema(schema, name) ?? ANYTHING, `${path}.${name}`),
      );
}
