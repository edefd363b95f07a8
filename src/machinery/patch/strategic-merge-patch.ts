import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ApiFailure, badRequest } from '../failure.ts';
import { childSchema, type Schema } from '../schema/schema.ts';
import { cannotDecode, goTypeOf, showGo, withoutNulls } from './json-patch.ts';

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const DELETION = '$deleteFromPrimitiveList';
const ORDER = '$setElementOrder';

type List = readonly JsonValue[];

/** Merges lists as the schema says and obeys directives such as `$patch` (strategicpatch/patch.go of apimachinery). */
export function applyStrategicPatch(object: JsonObject, patch: JsonValue, schema: Schema): JsonObject {
  if (patch === null) return object;
  if (!isJsonObject(patch)) throw badRequest(cannotDecode(patch, 'value of type map[string]interface {}'));
  return mergeObjects(object, patch, schema);
}

function mergeObjects(live: JsonObject, patch: JsonObject, schema: Schema | undefined): JsonObject {
  if (Object.hasOwn(patch, DIRECTIVE)) return obeyDirective(patch);
  const result = new Map(Object.entries(retained(live, patch)));
  const changes = new Map(Object.entries(patch));
  changes.delete(RETAIN_KEYS);

  // Ordered lists first, because the order also covers the list in the patch.
  for (const [key, order] of Object.entries(patch)) {
    if (!key.startsWith(ORDER)) continue;
    changes.delete(key);
    const wanted = asList(order);
    const name = nameBehind(key, ORDER);
    const field = fieldOf(schema, name);
    const list = orderedList(result.get(name), changes.get(name), wanted, field);
    if (list === undefined) continue;
    result.set(name, list);
    changes.delete(name);
  }
  for (const [key, value] of changes) {
    const deletion = key.startsWith(DELETION);
    const name = deletion ? nameBehind(key, DELETION) : key;
    const merged = mergeField(result.get(name), value, deletion, fieldOf(schema, name));
    if (merged === undefined) result.delete(name);
    else result.set(name, merged);
  }
  return Object.fromEntries(result);
}

function obeyDirective(patch: JsonObject): JsonObject {
  const { [DIRECTIVE]: directive = null, ...rest } = patch;
  if (directive === 'replace') return asNew(rest);
  if (directive === 'delete') return {};
  throw unknownDirective(directive, patch);
}

/** The fields of the live object that `$retainKeys` keeps, for unions such as the volumes of a pod. */
function retained(live: JsonObject, patch: JsonObject): JsonObject {
  if (!Object.hasOwn(patch, RETAIN_KEYS)) return live;
  const keys = patch[RETAIN_KEYS];
  if (!isJsonArray(keys)) throw badRequest('invalid patch format of retainKeys');
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || key === RETAIN_KEYS || key.startsWith(DELETION) || key.startsWith(ORDER)) continue;
    if (!keys.includes(key)) throw badRequest('invalid patch format of retainKeys');
  }
  return Object.fromEntries(Object.entries(live).filter(([key]) => keys.includes(key)));
}

/** `containers` of `$setElementOrder/containers`. */
function nameBehind(key: string, prefix: typeof ORDER | typeof DELETION): string {
  if (key.startsWith(`${prefix}/`)) return key.slice(prefix.length + 1);
  throw badRequest(`invalid patch format of ${prefix === ORDER ? 'setElementOrder' : 'primitive'} list`);
}

function mergeField(
  live: JsonValue | undefined,
  patch: JsonValue,
  deletion: boolean,
  field: Field,
): JsonValue | undefined {
  if (patch === null) return undefined;
  if (live === undefined || goTypeOf(live) !== goTypeOf(patch)) return deletion ? live : newValue(patch);
  if (isJsonObject(live) && isJsonObject(patch)) {
    return field.strategy === 'replace' ? asNew(patch) : mergeObjects(live, patch, field.schema);
  }
  if (isJsonArray(live) && isJsonArray(patch)) return mergeListField(live, patch, deletion, field);
  return newValue(patch);
}

function mergeListField(live: List, patch: List, deletion: boolean, field: Field): List {
  if (field.strategy !== 'merge') return patch.map(withoutNulls);
  if (deletion && !patch.some(isJsonObject)) return live.filter((value) => !patch.includes(value));
  return mergeLists(live, patch, field);
}

/** The list in the order of the patch; undefined if neither side has it. */
function orderedList(
  live: JsonValue | undefined,
  patch: JsonValue | undefined,
  order: List,
  field: Field,
): List | undefined {
  const liveList = live === undefined ? undefined : asList(live);
  const patchList = patch === undefined ? undefined : asList(patch);
  checkOrder(patchList ?? [], order, field.mergeKey);
  if (liveList === undefined)
    return patchList === undefined ? undefined : inOrder(patchList, order, [], field.mergeKey);
  if (patchList === undefined) return inOrder(liveList, order, liveList, field.mergeKey);
  const merged = mergeListField(liveList, patchList, false, field);
  return inOrder(merged, order, fillGaps(liveList, merged, field.mergeKey), field.mergeKey);
}

function asList(value: JsonValue): List {
  if (!isJsonArray(value)) throw wrongType([], value);
  return value;
}

interface Field {
  readonly schema: Schema | undefined;
  readonly strategy: 'merge' | 'replace' | undefined;
  readonly mergeKey: string | undefined;
}

function fieldOf(parent: Schema | undefined, name: string): Field {
  const schema = parent && childSchema(parent, name);
  const strategies = schema?.['x-kubernetes-patch-strategy']?.split(',') ?? [];
  return {
    schema,
    strategy: strategies.includes('merge') ? 'merge' : strategies.includes('replace') ? 'replace' : undefined,
    mergeKey: schema?.['x-kubernetes-patch-merge-key'],
  };
}

/** A value of the patch without a live counterpart, without nulls and directives. Undefined if it is a directive itself. */
function newValue(patch: JsonValue): JsonValue | undefined {
  if (isJsonArray(patch)) return patch.map(newValue).filter((item) => item !== undefined);
  if (!isJsonObject(patch)) return patch;
  return Object.hasOwn(patch, DIRECTIVE) ? undefined : asNew(patch);
}

function asNew(patch: JsonObject): JsonObject {
  const entries = Object.entries(patch).flatMap(([key, item]) => {
    const value = item === null ? undefined : newValue(item);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(entries);
}

/** Items of the patch in the patch's order and other items in their own, interleaved by their positions in the live list. */
function mergeLists(live: List, patch: List, field: Field): List {
  if (live.length === 0 && patch.length === 0) return live;
  const { mergeKey } = field;
  if (!holdsObjects([live, patch])) {
    return inOrder([...new Set([...live, ...patch])], patch, live, mergeKey);
  }
  if (mergeKey === undefined) throw unforeseen('cannot merge lists without merge key for type struct');
  const { kept, changes } = obeyDirectives(live, patch, mergeKey);
  return inOrder(mergeItems(kept, changes, mergeKey, field), changes, kept, mergeKey);
}

/** Whether the items are objects. @throws ApiFailure if they are lists or have different types */
function holdsObjects(lists: readonly List[]): boolean {
  const items = lists.flat();
  const [first] = items;
  if (isJsonArray(first)) {
    const why = 'the server rejected our request due to an error in our request';
    throw new ApiFailure(422, 'Invalid', why, {});
  }
  const type = first === undefined ? undefined : goTypeOf(first);
  if (items.some((item) => goTypeOf(item) !== type))
    throw unforeseen(`list element types are not identical: ${showGo(lists)}`);
  return isJsonObject(first);
}

/** Applies the `$patch` directives to the live list; returns the result and the other items of the patch. */
function obeyDirectives(
  live: List,
  patch: List,
  mergeKey: string,
): { readonly kept: List; readonly changes: List } {
  let kept = live;
  let replaced = false;
  const changes: JsonValue[] = [];
  for (const item of patch.map(asObject)) {
    if (!Object.hasOwn(item, '$patch')) {
      changes.push(item);
      continue;
    }
    const directive = item.$patch ?? null;
    if (directive === 'delete') {
      const key = keyOf(item, mergeKey);
      kept = kept.filter((other) => ownValue(asObject(other), mergeKey) !== key);
    } else if (directive === 'replace') {
      replaced = true;
    } else {
      throw directive === 'merge'
        ? unforeseen('merging lists cannot yet be specified in the patch')
        : unknownDirective(directive, item);
    }
  }
  return replaced ? { kept: changes, changes: [] } : { kept, changes };
}

function mergeItems(live: List, patch: List, mergeKey: string, { schema }: Field): List {
  const merged = live.map(asObject);
  for (const item of patch.map(asObject)) {
    const key = keyOf(item, mergeKey);
    const index = merged.findIndex((other) => ownValue(other, mergeKey) === key);
    const found = merged[index];
    if (found === undefined) merged.push(asNew(item));
    else merged[index] = mergeObjects(found, item, schema?.items);
  }
  return merged;
}

/** Items in `order` follow it, others the live list, interleaved by live positions. In doubt, items of the patch come first. */
function inOrder(items: List, order: List, live: List, mergeKey: string | undefined): List {
  const identify = identityBy(mergeKey);
  const places = (list: List) => {
    const found = new Map<JsonValue, number>();
    for (const [index, item] of list.entries()) {
      if (!found.has(identify(item))) found.set(identify(item), index);
    }
    return (item: JsonValue) => found.get(identify(item)) ?? -1;
  };
  const [placeInOrder, placeInLive] = [places(order), places(live)];
  const byPlace = (place: (item: JsonValue) => number) => (a: JsonValue, b: JsonValue) => place(a) - place(b);
  const named = items.filter((item) => placeInOrder(item) >= 0).sort(byPlace(placeInOrder));
  const others = items.filter((item) => placeInOrder(item) < 0).sort(byPlace(placeInLive));
  return interleave(others, named, placeInLive);
}

/** The live list as the API server sees it after merging in place: new items take the place of deleted items at the end. */
function fillGaps(live: List, merged: List, mergeKey: string | undefined): List {
  if (mergeKey === undefined) return live;
  const identify = identityBy(mergeKey);
  const [before, after] = [new Set(live.map(identify)), new Set(merged.map(identify))];
  const kept = live.filter((item) => after.has(identify(item)));
  const added = merged.filter((item) => !before.has(identify(item)));
  return [...kept, ...added.slice(0, live.length - kept.length)];
}

/** Keeps the order of both lists. An item of `left` comes first if the live list had it before the next item of `right`. */
function interleave(left: List, right: List, placeInLive: (item: JsonValue) => number): List {
  const result: JsonValue[] = [];
  let taken = 0;
  for (const item of right) {
    const place = placeInLive(item);
    for (let next = left[taken]; next !== undefined; next = left[taken]) {
      const nextPlace = placeInLive(next);
      if (place < 0 || nextPlace < 0 || nextPlace >= place) break;
      result.push(next);
      taken += 1;
    }
    result.push(item);
  }
  return [...result, ...left.slice(taken)];
}

/** Checks that `$setElementOrder` names all items of the patch, in their order. */
function checkOrder(patch: List, order: List, mergeKey: string | undefined): void {
  if (order.length === 0) return;
  const identify = identityBy(mergeKey);
  const wanted = patch.filter((item) => mergeKey === undefined || !Object.hasOwn(asObject(item), '$patch'));
  let next = 0;
  for (const item of order) {
    const current = wanted[next];
    if (current === undefined) return;
    if (identify(current) === identify(item)) next += 1;
  }
  if (next < wanted.length) {
    throw unforeseen(
      `The order in patch list:\n${showGo(patch)}\n doesn't match $setElementOrder list:\n${showGo(order)}\n`,
    );
  }
}

/** What makes an item of a list the same in two lists: its key, or the scalar value itself. */
const identityBy =
  (mergeKey: string | undefined) =>
  (item: JsonValue): JsonValue =>
    mergeKey === undefined ? item : keyOf(asObject(item), mergeKey);

function keyOf(item: JsonObject, mergeKey: string): JsonValue {
  const value = Object.hasOwn(item, mergeKey) ? item[mergeKey] : undefined;
  if (value === undefined)
    throw unforeseen(`map: ${showGo(item)} does not contain declared merge key: ${mergeKey}`);
  return value;
}

function asObject(item: JsonValue): JsonObject {
  if (!isJsonObject(item)) throw wrongType({}, item);
  return item;
}

// Malformed directives and lists of lists are client errors, everything else is an internal error (mergepatch/errors.go).
const unforeseen = (message: string) => new ApiFailure(500, '', message);

const unknownDirective = (directive: JsonValue, map: JsonObject) =>
  unforeseen(`unknown patch type: ${showGo(directive)} in map: ${showGo(map)}`);

const wrongType = (expected: JsonValue, actual: JsonValue) =>
  unforeseen(`expected a ${goTypeOf(expected)}, but received a ${goTypeOf(actual)}`);
