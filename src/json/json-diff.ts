import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from './json.ts';
import { applyPatch, pointerPart, type PatchOperation } from './json-patch.ts';

/** A patch with thousands of operations costs the API server more than repeating the value. */
const MAX_OPERATIONS = 256;
/** In characters: keys can be as long as objects, and each operation below such a key repeats it. */
const MAX_PATH_LENGTH = 64 * 1024;
const MAX_DEPTH = 64;

/** Linear in the size of both. Identical references are equal without a comparison, so a copy-on-write change is cheap. */
export function diff(before: JsonObject, after: JsonObject): readonly PatchOperation[] {
  // Never replace the root: the API server's patch library does not do that reliably.
  return before === after ? [] : memberDiff(before, after, '', 0, valueDiff);
}

/** A patch that does not apply fails the request even under `failurePolicy: Ignore`, so this one is verified. */
export function verifiedDiff(
  before: JsonObject,
  after: JsonObject,
  differ: typeof diff = diff,
): readonly PatchOperation[] {
  const patch = differ(before, after);
  if (produces(before, patch, after)) return patch;
  const coarse = coarseDiff(before, after);
  if (produces(before, coarse, after)) return coarse;
  throw new Error('no JSON patch leads from the object received to the object wanted');
}

function produces(before: JsonObject, patch: readonly PatchOperation[], after: JsonObject): boolean {
  try {
    return isEqual(applyPatch(before, patch), after);
  } catch {
    return false; // it does not apply
  }
}

function coarseDiff(before: JsonObject, after: JsonObject, path = '', depth = 0): readonly PatchOperation[] {
  const operations = memberDiff(before, after, path, depth, replace);
  const [only] = operations;
  if (operations.length !== 1 || only?.op !== 'replace' || depth >= MAX_DEPTH) return operations;
  const key = Object.keys(after).find((name) => path + pointerPart(name) === only.path) ?? '';
  const [inner, wanted] = [ownValue(before, key), ownValue(after, key)];
  return isJsonObject(inner) && isJsonObject(wanted)
    ? coarseDiff(inner, wanted, only.path, depth + 1)
    : operations;
}

type ValueDiff = (
  before: JsonValue,
  after: JsonValue,
  path: string,
  depth: number,
) => readonly PatchOperation[];

const replace: ValueDiff = (before, after, path) =>
  isEqual(before, after) ? [] : [{ op: 'replace', path, value: after }];

const valueDiff: ValueDiff = (before, after, path, depth) => {
  if (before === after) return [];
  if (depth < MAX_DEPTH) {
    if (isJsonObject(before) && isJsonObject(after))
      return orReplacement(memberDiff(before, after, path, depth, valueDiff), path, after);
    if (isJsonArray(before) && isJsonArray(after))
      return orReplacement(listDiff(before, after, path, depth), path, after);
  }
  return replace(before, after, path, depth);
};

function orReplacement(
  operations: readonly PatchOperation[],
  path: string,
  value: JsonValue,
): readonly PatchOperation[] {
  const isLarge =
    operations.length > MAX_OPERATIONS ||
    (operations.length > 1 && operations.reduce((sum, { path }) => sum + path.length, 0) > MAX_PATH_LENGTH);
  return isLarge ? [{ op: 'replace', path, value }] : operations;
}

function memberDiff(
  before: JsonObject,
  after: JsonObject,
  path: string,
  depth: number,
  differ: ValueDiff,
): readonly PatchOperation[] {
  const operations: PatchOperation[] = [];
  for (const key of Object.keys(before))
    if (!Object.hasOwn(after, key)) operations.push({ op: 'remove', path: path + pointerPart(key) });
  for (const key of Object.keys(after)) {
    const old = Object.hasOwn(before, key) ? before[key] : undefined;
    const value = after[key];
    if (old === value || value === undefined) continue; // the usual case after a copy-on-write change
    const pointer = path + pointerPart(key);
    if (old === undefined) operations.push({ op: 'add', path: pointer, value });
    else operations.push(...differ(old, value, pointer, depth + 1));
  }
  return operations;
}

function listDiff(
  before: JsonArray,
  after: JsonArray,
  path: string,
  depth: number,
): readonly PatchOperation[] {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && isEqual(before[start], after[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isEqual(before.at(-1 - end), after.at(-1 - end))) end += 1;

  const was = before.slice(start, before.length - end);
  const is = after.slice(start, after.length - end);
  const list: ListDiff = { was, is, start, path, depth };
  if (was.length === 0 || is.length === 0)
    return [...removals(list, () => true), ...additions(list, () => true)];
  return (
    namedDiff(list) ??
    (was.length === is.length
      ? elementDiff(list, (_element, index) => list.was[index])
      : [{ op: 'replace', path, value: after }])
  );
}

interface ListDiff {
  readonly was: JsonArray;
  readonly is: JsonArray;
  readonly start: number;
  readonly path: string;
  readonly depth: number;
}

/** By `name`, the merge key of most lists. Undefined if names are missing, repeat, or change their order. */
function namedDiff(list: ListDiff): readonly PatchOperation[] | undefined {
  const was = byName(list.was);
  const is = byName(list.is);
  if (was === undefined || is === undefined) return undefined;
  const staying = [...was.keys()].filter((name) => is.has(name));
  if ([...is.keys()].filter((name) => was.has(name)).some((name, index) => name !== staying[index]))
    return undefined;

  // Remove from the back and add from the front: then no operation shifts the index of a later one.
  return [
    ...removals(list, (element) => !is.has(nameOf(element) ?? '')),
    ...additions(list, (element) => !was.has(nameOf(element) ?? '')),
    ...elementDiff(list, (element) => was.get(nameOf(element) ?? '')),
  ];
}

function byName(list: JsonArray): ReadonlyMap<string, JsonValue> | undefined {
  const elements = new Map<string, JsonValue>();
  for (const element of list) {
    const name = nameOf(element);
    if (name === undefined || elements.has(name)) return undefined;
    elements.set(name, element);
  }
  return elements;
}

function nameOf(element: JsonValue): string | undefined {
  const name = isJsonObject(element) ? ownValue(element, 'name') : undefined;
  return typeof name === 'string' ? name : undefined;
}

function removals({ was, start, path }: ListDiff, isGone: (element: JsonValue) => boolean): PatchOperation[] {
  return was
    .flatMap((element, index): readonly PatchOperation[] =>
      isGone(element) ? [{ op: 'remove', path: path + pointerPart(start + index) }] : [],
    )
    .reverse();
}

function additions({ is, start, path }: ListDiff, isNew: (element: JsonValue) => boolean): PatchOperation[] {
  return is.flatMap((value, index): readonly PatchOperation[] =>
    isNew(value) ? [{ op: 'add', path: path + pointerPart(start + index), value }] : [],
  );
}

function elementDiff(
  { is, start, path, depth }: ListDiff,
  oldOf: (element: JsonValue, index: number) => JsonValue | undefined,
): readonly PatchOperation[] {
  return is.flatMap((element, index) => {
    const old = oldOf(element, index);
    return old === undefined ? [] : valueDiff(old, element, path + pointerPart(start + index), depth + 1);
  });
}
