import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { goTypeOf } from './go-types.ts';
import {
  listsOfLists,
  mergeDirectiveInList,
  mixedList,
  noKeyToMergeBy,
  noMergeKey,
  orderMismatch,
  unknownDirective,
  wrongType,
} from './strategic-failures.ts';

type List = readonly JsonValue[];

/** The identity of list items, and how two items with the same key are merged. */
export interface ListRules {
  /** Undefined for lists of scalar values. */
  readonly mergeKey: string | undefined;
  readonly mergeItem: (live: JsonObject, patch: JsonObject) => JsonObject;
  /** A patch item that is missing in the live list, without directives. */
  readonly newItem: (patch: JsonObject) => JsonObject;
}

/**
 * The list after a merge: items of the patch in the patch's order, other items in their own order, interleaved by their
 * positions in the live list.
 */
export function mergeLists(live: List, patch: List, rules: ListRules): List {
  if (live.length === 0 && patch.length === 0) return live;
  const { mergeKey } = rules;
  if (!holdsObjects([live, patch])) {
    return inOrder([...new Set([...live, ...patch])], patch, live, mergeKey);
  }
  if (mergeKey === undefined) throw noKeyToMergeBy();
  const { kept, changes } = obeyDirectives(live, patch, mergeKey);
  return inOrder(mergeItems(kept, changes, mergeKey, rules), changes, kept, mergeKey);
}

/** The live list without the values in a `$deleteFromPrimitiveList`. */
export const withoutValues = (live: List, values: List): List =>
  live.filter((value) => !values.includes(value));

/**
 * Whether the items are objects.
 * @throws ApiFailure if they are lists or have different types
 */
function holdsObjects(lists: readonly List[]): boolean {
  const items = lists.flat();
  const [first] = items;
  if (isJsonArray(first)) throw listsOfLists();
  const type = first === undefined ? undefined : goTypeOf(first);
  if (items.some((item) => goTypeOf(item) !== type)) throw mixedList(lists);
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
      throw directive === 'merge' ? mergeDirectiveInList() : unknownDirective(directive, item);
    }
  }
  return replaced ? { kept: changes, changes: [] } : { kept, changes };
}

function mergeItems(live: List, patch: List, mergeKey: string, { mergeItem, newItem }: ListRules): List {
  const merged = live.map(asObject);
  for (const item of patch.map(asObject)) {
    const key = keyOf(item, mergeKey);
    const index = merged.findIndex((other) => ownValue(other, mergeKey) === key);
    const found = merged[index];
    if (found === undefined) merged.push(newItem(item));
    else merged[index] = mergeItem(found, item);
  }
  return merged;
}

/**
 * The items in order: items in `order` follow it, other items follow the live list, interleaved by their positions in
 * the live list. If positions do not decide, items of the patch come first.
 */
export function inOrder(items: List, order: List, live: List, mergeKey: string | undefined): List {
  const identify = (item: JsonValue) => (mergeKey === undefined ? item : keyOf(asObject(item), mergeKey));
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

/**
 * The live list as the API server sees it after merging. It deletes and appends in place, so new items take the place
 * of deleted items at the end of the list. This decides how they are interleaved with server-only items.
 */
export function fillGaps(live: List, merged: List, mergeKey: string | undefined): List {
  if (mergeKey === undefined) return live;
  const keys = (list: List) => new Set(list.map((item) => keyOf(asObject(item), mergeKey)));
  const [before, after] = [keys(live), keys(merged)];
  const kept = live.filter((item) => after.has(keyOf(asObject(item), mergeKey)));
  const added = merged.filter((item) => !before.has(keyOf(asObject(item), mergeKey)));
  return [...kept, ...added.slice(0, live.length - kept.length)];
}

/**
 * Both lists keep their order; an item of `left` comes first if the live list had it before the next item of `right`.
 */
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

/**
 * Checks that `$setElementOrder` names all items of the patch, in their order.
 * @throws ApiFailure 500, as in the API server
 */
export function checkOrder(patch: List, order: List, mergeKey: string | undefined): void {
  if (order.length === 0) return;
  const identify = (item: JsonValue) => (mergeKey === undefined ? item : keyOf(asObject(item), mergeKey));
  const wanted = patch.filter((item) => mergeKey === undefined || !Object.hasOwn(asObject(item), '$patch'));
  let next = 0;
  for (const item of order) {
    const current = wanted[next];
    if (current === undefined) return;
    if (identify(current) === identify(item)) next += 1;
  }
  if (next < wanted.length) throw orderMismatch(patch, order);
}

/** @throws ApiFailure if the item lacks the key */
function keyOf(item: JsonObject, mergeKey: string): JsonValue {
  const value = Object.hasOwn(item, mergeKey) ? item[mergeKey] : undefined;
  if (value === undefined) throw noMergeKey(item, mergeKey);
  return value;
}

function asObject(item: JsonValue): JsonObject {
  if (!isJsonObject(item)) throw wrongType({}, item);
  return item;
}
