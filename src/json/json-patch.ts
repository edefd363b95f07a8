import { isJsonArray, isJsonObject, type JsonArray, type JsonObject, type JsonValue } from './json.ts';
import { setOwn } from './objects.ts';

/** The operations of a JSON Patch (RFC 6902) that Gatehouse writes. `path` is a JSON Pointer (RFC 6901). */
export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: string };

/** One part of a JSON Pointer, escaped as in RFC 6901 §3. */
export function pointerPart(key: string | number): string {
  const text = String(key);
  return text.includes('~') || text.includes('/')
    ? `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`
    : `/${text}`;
}

type Draft = JsonValue[] | Record<string, JsonValue>;

/**
 * The document with the patch applied; the document itself stays as it is, and what the patch does not touch is shared.
 *
 * As strict as the API server: a parent that is absent, an index beyond the list and the removal of an absent value are errors.
 *
 * @throws Error that names the operation which does not apply.
 */
export function applyPatch(document: JsonObject, patch: readonly PatchOperation[]): JsonObject {
  const drafts = new Set<object>(); // the containers that are copies of ours and may be changed in place
  const root = copyOf(document, drafts);
  for (const operation of patch) {
    const keys = parsePointer(operation.path);
    const last = keys.pop();
    if (last === undefined) throw doesNotApply(operation, 'the document itself is not replaced');
    let container: Draft = root;
    for (const key of keys) container = enter(container, key, operation, drafts);
    apply(container, last, operation);
  }
  return root as JsonObject; // it is a copy of an object
}

function parsePointer(pointer: string): string[] {
  const parts = pointer.split('/');
  if (parts.shift() !== '') throw new Error(`not a JSON Pointer: ${pointer}`);
  return pointer.includes('~')
    ? parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    : parts;
}

function copyOf(container: JsonObject | JsonArray, drafts: Set<object>): Draft {
  const copy: Draft = isJsonArray(container) ? [...container] : { ...container };
  drafts.add(copy);
  return copy;
}

function enter(container: Draft, key: string, operation: PatchOperation, drafts: Set<object>): Draft {
  const child = read(container, key);
  if (!isJsonArray(child) && !isJsonObject(child)) throw doesNotApply(operation, `${key} has no members`);
  if (drafts.has(child)) return child as Draft; // we made it ourselves
  const copy = copyOf(child, drafts);
  write(container, key, copy);
  return copy;
}

function apply(container: Draft, key: string, operation: PatchOperation): void {
  if (operation.op !== 'add' && read(container, key) === undefined) {
    throw doesNotApply(operation, 'there is nothing to change');
  }
  if (Array.isArray(container)) {
    const index = key === '-' && operation.op === 'add' ? container.length : indexOf(key);
    if (index === undefined || index > container.length)
      throw doesNotApply(operation, 'the list has no such index');
    if (operation.op === 'remove') container.splice(index, 1);
    else container.splice(index, operation.op === 'replace' ? 1 : 0, operation.value);
  } else if (operation.op === 'remove') {
    Reflect.deleteProperty(container, key);
  } else {
    write(container, key, operation.value);
  }
}

function read(container: Draft, key: string): JsonValue | undefined {
  if (!Array.isArray(container)) return Object.hasOwn(container, key) ? container[key] : undefined;
  const index = indexOf(key);
  return index === undefined ? undefined : container[index];
}

function write(container: Draft, key: string, value: JsonValue): void {
  if (Array.isArray(container)) container[Number(key)] = value;
  else setOwn(container, key, value);
}

function indexOf(key: string): number | undefined {
  return /^(0|[1-9]\d*)$/.test(key) ? Number(key) : undefined;
}

function doesNotApply({ op, path }: PatchOperation, why: string): Error {
  return new Error(`cannot ${op} ${path}: ${why}`);
}
