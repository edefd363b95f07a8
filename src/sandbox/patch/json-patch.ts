import { applyPatch, type Operation as LibraryOperation } from 'rfc6902';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { ApiFailure, badRequest } from '../machinery/failure.ts';
import { cannotDecode } from './go-words.ts';
import { shelter, shelterKey, unshelter } from './sheltered-keys.ts';

const MAX_OPERATIONS = 10_000;
/** Bytes that all `copy` operations of a patch may add, lest a short patch double an object over and over. */
const MAX_COPIED = 3 * 1024 * 1024;

/**
 * The object after a JSON patch. The package applies it; this file holds to what kube-apiserver's own library makes of RFC 6902:
 * `replace` adds a field that is absent, an absent field equals and is copied as null, an index below 0 counts from the end,
 * a patch may replace the whole object but not add or remove it.
 *
 * @throws ApiFailure 400 when it is not a list of operations, 413 when there are too many, 422 when one does not apply
 * @see https://github.com/evanphx/json-patch/blob/v4.13.0/patch.go
 */
export function applyJsonPatch(object: JsonObject, patch: JsonValue): JsonObject {
  const operations = readOperations(patch);
  if (operations.length > MAX_OPERATIONS) {
    throw new ApiFailure(
      413,
      'RequestEntityTooLarge',
      `Request entity is too large: The allowed maximum operations in a JSON patch is ${MAX_OPERATIONS}, got ${operations.length}`,
    );
  }
  const holder: Holder = { document: shelter(object), copied: 0 };
  for (const operation of operations) applyOperation(holder, operation);
  const patched = unshelter(holder.document);
  if (!isJsonObject(patched)) throw doesNotApply();
  return patched;
}

/** What is being patched, with sheltered keys; changed in place, as the package does it. */
interface Holder {
  document: JsonValue;
  copied: number;
}

interface Operation {
  /** Empty when absent. */
  readonly op: string;
  readonly path: string | undefined;
  readonly from: string | undefined;
  /** Null when absent; with sheltered keys. */
  readonly value: JsonValue;
}

/** The API server says no more than this: not which operation, nor why. */
const doesNotApply = () =>
  new ApiFailure(422, 'Invalid', 'the server rejected our request due to an error in our request', {});

function applyOperation(holder: Holder, { op, path, from, value }: Operation): void {
  if (path === undefined) throw doesNotApply();
  switch (op) {
    case 'add':
      add(holder, path, value);
      return;
    case 'remove':
      remove(holder, path);
      return;
    case 'replace':
      replace(holder, path, value);
      return;
    case 'test':
      if (!isEqual(path === '' ? holder.document : valueAt(holder.document, path), value))
        throw doesNotApply();
      return;
    case 'move': {
      if (from === undefined) throw doesNotApply();
      const moved = valueAt(holder.document, from);
      remove(holder, from);
      add(holder, path, moved);
      return;
    }
    case 'copy': {
      if (from === undefined) throw doesNotApply();
      const copy = valueAt(holder.document, from);
      holder.copied += Buffer.byteLength(stringifyJson(copy));
      if (holder.copied > MAX_COPIED) throw doesNotApply();
      add(holder, path, copy);
      return;
    }
    default:
      throw doesNotApply();
  }
}

function add({ document }: Holder, path: string, value: JsonValue): void {
  const { container, key, pointer } = locate(document, path);
  if (isJsonArray(container) && key !== '-') {
    const index = indexOf(key, container.length + 1);
    apply(document, { op: 'add', path: `${pointer}/${index}`, value });
  } else if (isJsonArray(container)) {
    apply(document, { op: 'add', path: `${pointer}/-`, value });
  } else {
    apply(document, { op: 'add', path: pointerTo(pointer, key), value });
  }
}

function remove({ document }: Holder, path: string): void {
  const { container, key, pointer } = locate(document, path);
  if (isJsonArray(container)) {
    apply(document, { op: 'remove', path: `${pointer}/${indexOf(key, container.length)}` });
  } else {
    apply(document, { op: 'remove', path: pointerTo(pointer, key) });
  }
}

function replace(holder: Holder, path: string, value: JsonValue): void {
  const { document } = holder;
  if (path === '') {
    if (!isJsonObject(value)) throw doesNotApply();
    holder.document = value;
    return;
  }
  const { container, key, pointer } = locate(document, path);
  if (isJsonArray(container)) {
    apply(document, { op: 'replace', path: `${pointer}/${indexOf(key, container.length)}`, value });
  } else {
    apply(document, { op: 'add', path: pointerTo(pointer, key), value }); // which replaces what is there
  }
}

function apply(document: JsonValue, operation: LibraryOperation): void {
  const [failure = null] = applyPatch(document, [operation]);
  if (failure !== null) throw doesNotApply();
}

interface Location {
  readonly container: JsonObject | readonly JsonValue[];
  /** The last part of the path, as it was written but for escapes. */
  readonly key: string;
  /** To the container, in sheltered keys and real indices. */
  readonly pointer: string;
}

/** Where a path leads. What comes before the first `/` does not count, as in the API server. */
function locate(document: JsonValue, path: string): Location {
  const [, ...keys] = path.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = keys.pop();
  if (last === undefined) throw doesNotApply();
  let container = document;
  let pointer = '';
  for (const key of keys) {
    if (isJsonArray(container)) pointer += `/${indexOf(key, container.length)}`;
    else pointer = pointerTo(pointer, key);
    container = childOf(container, key);
  }
  if (!isJsonArray(container) && !isJsonObject(container)) throw doesNotApply();
  return { container, key: last, pointer };
}

function valueAt(document: JsonValue, path: string): JsonValue {
  const { container, key } = locate(document, path);
  return childOf(container, key);
}

/** An absent field is null; an absent item, or anything in a plain value, is a mistake. */
function childOf(container: JsonValue, key: string): JsonValue {
  if (isJsonArray(container)) return container[indexOf(key, container.length)] ?? null;
  if (!isJsonObject(container)) throw doesNotApply();
  const sheltered = shelterKey(key);
  return Object.hasOwn(container, sheltered) ? (container[sheltered] ?? null) : null;
}

const pointerTo = (pointer: string, key: string) =>
  `${pointer}/${shelterKey(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** The index that a part of a path stands for in a list of this length. */
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
    return { op: text('op') ?? '', path: text('path'), from: text('from'), value: shelter(value) };
  });
}
