import { editDocument, unescapePart, type Edit, type EditedDocument } from '../../json/json-patch.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  parseJson,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { ApiFailure, badRequest } from '../failure.ts';
import { mergeInto } from '../../json/merge-patch.ts';

const MAX_OPERATIONS = 10_000;
/** Bytes that all `copy` operations of a patch may add: a short patch could double an object again and again. */
const MAX_COPIED = 3 * 1024 * 1024;

/** Deviates from RFC 6902 like kube-apiserver (evanphx/json-patch v4.13.0), e.g. a negative index counts from the end. */
export function applyJsonPatch(object: JsonObject, patch: JsonValue): JsonObject {
  const operations = readOperations(patch);
  if (operations.length > MAX_OPERATIONS) {
    throw new ApiFailure(
      413,
      'RequestEntityTooLarge',
      `Request entity is too large: The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${operations.length}`,
    );
  }
  const patched: Patched = { edited: editDocument(object), copiedBytes: 0 };
  for (const operation of operations) applyOperation(patched, operation);
  return patched.edited.document;
}

interface Patched {
  edited: EditedDocument;
  copiedBytes: number;
}

interface Operation {
  /** Empty when absent. */
  readonly op: string;
  readonly path: string | undefined;
  readonly from: string | undefined;
  /** Null when absent. */
  readonly value: JsonValue;
}

/** The API server names neither the operation nor the reason. */
const doesNotApply = () =>
  new ApiFailure(422, 'Invalid', 'the server rejected our request due to an error in our request', {});

function applyOperation(patched: Patched, { op, path, from, value }: Operation): void {
  if (path === undefined) throw doesNotApply();
  switch (op) {
    case 'add':
    case 'remove':
      edit(patched, path, { op, value });
      return;
    case 'replace':
      replace(patched, path, value);
      return;
    case 'test':
      if (!isEqual(path === '' ? patched.edited.document : valueAt(patched, path), value))
        throw doesNotApply();
      return;
    case 'move': {
      if (from === undefined) throw doesNotApply();
      const moved = valueAt(patched, from);
      edit(patched, from, { op: 'remove' });
      edit(patched, path, { op: 'add', value: moved });
      return;
    }
    case 'copy': {
      if (from === undefined) throw doesNotApply();
      const copy = stringifyJson(valueAt(patched, from));
      patched.copiedBytes += Buffer.byteLength(copy);
      if (patched.copiedBytes > MAX_COPIED) throw doesNotApply();
      edit(patched, path, { op: 'add', value: parseJson(copy) }); // a reference would change with the original
      return;
    }
    default:
      throw doesNotApply();
  }
}

function replace(patched: Patched, path: string, value: JsonValue): void {
  if (path !== '') {
    const isItem = isJsonArray(locate(patched, path).container);
    edit(patched, path, { op: isItem ? 'replace' : 'add', value });
  } else if (isJsonObject(value)) {
    patched.edited = editDocument(value);
  } else {
    throw doesNotApply();
  }
}

function edit(patched: Patched, path: string, change: Edit): void {
  const { container, key, parents } = locate(patched, path);
  const last =
    isJsonArray(container) && !(key === '-' && change.op === 'add')
      ? String(indexOf(key, container.length + (change.op === 'add' ? 1 : 0)))
      : key;
  if (patched.edited.apply([...parents, last], change) !== undefined) throw doesNotApply();
}

/** The container, the last key, and the keys before it, with indexes from 0. The API server ignores what precedes the first `/`. */
function locate({ edited }: Patched, path: string) {
  const [, ...keys] = path.split('/').map(unescapePart);
  const last = keys.pop();
  if (last === undefined) throw doesNotApply();
  let container: JsonValue = edited.document;
  const parents: string[] = [];
  for (const key of keys) {
    parents.push(isJsonArray(container) ? String(indexOf(key, container.length)) : key);
    container = childOf(container, key);
  }
  if (!isJsonArray(container) && !isJsonObject(container)) throw doesNotApply();
  return { container, key: last, parents };
}

function valueAt(patched: Patched, path: string): JsonValue {
  const { container, key } = locate(patched, path);
  return childOf(container, key);
}

/** An absent field is null. An absent item, or a child of a value that is not a container, is an error. */
function childOf(container: JsonValue, key: string): JsonValue {
  if (isJsonArray(container)) return container[indexOf(key, container.length)] ?? null;
  if (!isJsonObject(container)) throw doesNotApply();
  return Object.hasOwn(container, key) ? (container[key] ?? null) : null;
}

function indexOf(key: string, length: number): number {
  if (!/^[+-]?\d{1,9}$/.test(key)) throw doesNotApply();
  const index = Number(key) < 0 ? Number(key) + length : Number(key);
  if (index < 0 || index >= length) throw doesNotApply();
  return index;
}

function readOperations(patch: JsonValue): readonly Operation[] {
  const refuse = (value: JsonValue, into: string) =>
    badRequest(`error decoding patch: ${cannotDecode(value, into)}`);
  if (patch === null) return [];
  if (!isJsonArray(patch)) throw refuse(patch, 'value of type []handlers.jsonPatchOp');
  return patch.map((operation) => {
    if (operation === null) return { op: '', path: undefined, from: undefined, value: null };
    if (!isJsonObject(operation)) throw refuse(operation, 'value of type handlers.jsonPatchOp');
    const text = (name: 'op' | 'path' | 'from') => {
      const value = operation[name] ?? undefined;
      if (value === undefined || typeof value === 'string') return value;
      throw refuse(value, `struct field jsonPatchOp.${name} of type string`);
    };
    const value = Object.hasOwn(operation, 'value') ? (operation.value ?? null) : null;
    return { op: text('op') ?? '', path: text('path'), from: text('from'), value };
  });
}

// Some messages of the API server print values and types in Go syntax, and clients show them.

/** A value as `%v` prints it: `map[name:a value:1]`, `[a b]`, `<nil>`. */
export function showGo(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '<nil>';
  if (isJsonArray(value)) return `[${value.map(showGo).join(' ')}]`;
  if (!isJsonObject(value)) return String(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `map[${entries.map(([key, item]) => `${key}:${showGo(item)}`).join(' ')}]`;
}

/** The Go type of a decoded JSON value: `map[string]interface {}`, `int64`. */
export function goTypeOf(value: JsonValue): string {
  if (value === null) return '%!s(<nil>)';
  if (isJsonArray(value)) return '[]interface {}';
  if (isJsonObject(value)) return 'map[string]interface {}';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  return typeof value === 'bigint' || Number.isInteger(value) ? 'int64' : 'float64';
}

function jsonTypeOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (isJsonArray(value)) return 'array';
  if (isJsonObject(value)) return 'object';
  if (typeof value === 'string') return 'string';
  return typeof value === 'boolean' ? 'bool' : 'number';
}

export const cannotDecode = (value: JsonValue, into: string) =>
  `json: cannot unmarshal ${jsonTypeOf(value)} into Go ${into}`;

/** JSON merge patch (RFC 7386). Like the API server, drops null fields even within lists. */
export function applyMergePatch(object: JsonObject, patch: JsonValue): JsonObject {
  if (patch === null) throw badRequest('Invalid JSON Patch');
  if (!isJsonObject(patch)) {
    throw badRequest(`error decoding patch: ${cannotDecode(patch, 'value of type map[string]interface {}')}`);
  }
  return mergeInto(object, withoutNullsInLists(patch, object));
}

function withoutNullsInLists(patch: JsonObject, live: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(patch).map(([key, value]): readonly [string, JsonValue] => {
      const before = Object.hasOwn(live, key) ? live[key] : undefined;
      if (isJsonObject(value)) return [key, withoutNullsInLists(value, isJsonObject(before) ? before : {})];
      // The API server keeps nulls in a list that replaces an object.
      return [key, isJsonArray(value) && !isJsonObject(before) ? value.map(withoutNulls) : value];
    }),
  );
}

/** Without null fields at any depth. Null items of lists stay. */
export function withoutNulls(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, withoutNulls(item)]),
  );
}
