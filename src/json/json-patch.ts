import {
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  setOwn,
} from './json.ts';

/** The operations of a JSON Patch (RFC 6902) that Gatehouse writes. `path` is a JSON Pointer (RFC 6901). */
export type PatchOperation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: string };

/** For the API server: a failed `test` refuses the whole patch. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

export function pointerPart(key: string | number): string {
  const text = String(key);
  return text.includes('~') || text.includes('/')
    ? `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`
    : `/${text}`;
}

export const pointerOf = (keys: readonly (string | number)[]): string => keys.map(pointerPart).join('');

export function applyPatch(document: JsonObject, patch: readonly PatchOperation[]): JsonObject {
  const edited = editDocument(document);
  for (const operation of patch) {
    const problem = edited.apply(parsePointer(operation.path), operation);
    if (problem !== undefined) throw new Error(`cannot ${operation.op} ${operation.path}: ${problem}`);
  }
  return edited.document;
}

function parsePointer(pointer: string): readonly string[] {
  if (pointer === '') return [];
  if (!pointer.startsWith('/')) throw new Error(`not a JSON Pointer: ${pointer}`);
  const parts: string[] = [];
  for (let start = 1, end = 0; end >= 0; start = end + 1) {
    end = pointer.indexOf('/', start);
    parts.push(end < 0 ? pointer.slice(start) : pointer.slice(start, end));
  }
  return pointer.includes('~') ? parts.map(unescapePart) : parts;
}

export const unescapePart = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~');

export type Edit = { readonly op: 'add' | 'replace'; readonly value: JsonValue } | { readonly op: 'remove' };

export type EditedDocument = ReturnType<typeof editDocument>;

type Draft = JsonValue[] | Record<string, JsonValue>;

/** Edits a copy of the document. A container is copied before its first change, and only once. */
export function editDocument(document: JsonObject) {
  const drafts = new Set<object>(); // copies made here, which may be changed in place
  const root = copyOf(document, drafts);
  return {
    document: root as JsonObject, // it is a copy of an object
    /** @returns why the edit does not apply; undefined if it did */
    apply: (keys: readonly string[], edit: Edit): string | undefined => {
      const last = keys.at(-1);
      if (last === undefined) return 'the document itself is not replaced';
      let container: Draft = root;
      for (const [depth, key] of keys.slice(0, -1).entries()) {
        const child = draftOf(container, key, drafts);
        if (child === undefined) return noContainer(keys, depth, read(container, key));
        container = child;
      }
      return change(container, last, edit);
    },
  };
}

function noContainer(keys: readonly string[], depth: number, found: JsonValue | undefined): string {
  const parent = pointerOf(keys.slice(0, depth + 1));
  if (found !== undefined && found !== null) return `${parent} is neither an object nor a list`;
  const empty = /^(-|\d+)$/.test(keys[depth + 1] ?? '') ? '[]' : '{}';
  return `${parent} does not exist: if it is absent, first add it with the value ${empty}`;
}

function copyOf(container: JsonObject | JsonArray, drafts: Set<object>): Draft {
  const copy: Draft = isJsonArray(container) ? [...container] : { ...container };
  drafts.add(copy);
  return copy;
}

function draftOf(container: Draft, key: string, drafts: Set<object>): Draft | undefined {
  const child = read(container, key);
  if (!isJsonArray(child) && !isJsonObject(child)) return undefined;
  if (drafts.has(child)) return child as Draft; // a copy made here
  const copy = copyOf(child, drafts);
  if (Array.isArray(container)) container[Number(key)] = copy;
  else setOwn(container, key, copy);
  return copy;
}

function change(container: Draft, key: string, edit: Edit): string | undefined {
  if (edit.op !== 'add' && read(container, key) === undefined)
    return `it does not exist: ${edit.op} it only if it is there`;
  if (Array.isArray(container)) {
    const index = key === '-' && edit.op === 'add' ? container.length : indexOf(key);
    if (index === undefined || index > container.length) return 'the index is not in the list';
    if (edit.op === 'remove') container.splice(index, 1);
    else container.splice(index, edit.op === 'replace' ? 1 : 0, edit.value);
  } else if (edit.op === 'remove') {
    Reflect.deleteProperty(container, key);
  } else {
    setOwn(container, key, edit.value);
  }
  return undefined;
}

function read(container: Draft, key: string): JsonValue | undefined {
  if (!Array.isArray(container)) return Object.hasOwn(container, key) ? container[key] : undefined;
  const index = indexOf(key);
  return index === undefined ? undefined : container[index];
}

const indexOf = (key: string): number | undefined => (/^(0|[1-9]\d*)$/.test(key) ? Number(key) : undefined);
