import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { badRequest } from '../failure.ts';
import type { Schema } from '../schema/schema.ts';
import { cannotDecode, goTypeOf } from './go-types.ts';
import { checkOrder, fillGaps, inOrder, mergeLists, withoutValues, type ListRules } from './merge-lists.ts';
import { withoutNulls } from './merge-patch.ts';
import {
  malformedDeletion,
  malformedOrder,
  malformedRetainKeys,
  unknownDirective,
  wrongType,
} from './strategic-failures.ts';

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const DELETION = '$deleteFromPrimitiveList';
const ORDER = '$setElementOrder';

/**
 * The object after a strategic merge patch, which merges lists as the schema says (`x-kubernetes-patch-strategy` and
 * `-merge-key`) and obeys the directives `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.
 *
 * @throws ApiFailure 400 for malformed patches and directives, 422 for lists of lists, 500 for what kube-apiserver calls its own
 * fault, such as an item without its merge key
 * @see k8s.io/apimachinery/pkg/util/strategicpatch/patch.go
 */
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
  if (!isJsonArray(keys)) throw malformedRetainKeys();
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || key === RETAIN_KEYS || key.startsWith(DELETION) || key.startsWith(ORDER)) continue;
    if (!keys.includes(key)) throw malformedRetainKeys();
  }
  return Object.fromEntries(Object.entries(live).filter(([key]) => keys.includes(key)));
}

/** `containers` of `$setElementOrder/containers`. */
function nameBehind(key: string, prefix: typeof ORDER | typeof DELETION): string {
  if (key.startsWith(`${prefix}/`)) return key.slice(prefix.length + 1);
  throw prefix === ORDER ? malformedOrder() : malformedDeletion();
}

/** The merged field; undefined if it is removed. */
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

function mergeListField(
  live: readonly JsonValue[],
  patch: readonly JsonValue[],
  deletion: boolean,
  field: Field,
): readonly JsonValue[] {
  if (field.strategy !== 'merge') return patch.map(withoutNulls);
  if (deletion && !patch.some(isJsonObject)) return withoutValues(live, patch);
  return mergeLists(live, patch, rulesOf(field));
}

/** The list in the order of the patch; undefined if neither side has it. */
function orderedList(
  live: JsonValue | undefined,
  patch: JsonValue | undefined,
  order: readonly JsonValue[],
  field: Field,
): readonly JsonValue[] | undefined {
  const liveList = live === undefined ? undefined : asList(live);
  const patchList = patch === undefined ? undefined : asList(patch);
  checkOrder(patchList ?? [], order, field.mergeKey);
  if (liveList === undefined)
    return patchList === undefined ? undefined : inOrder(patchList, order, [], field.mergeKey);
  if (patchList === undefined) return inOrder(liveList, order, liveList, field.mergeKey);
  const merged = mergeListField(liveList, patchList, false, field);
  return inOrder(merged, order, fillGaps(liveList, merged, field.mergeKey), field.mergeKey);
}

function asList(value: JsonValue): readonly JsonValue[] {
  if (!isJsonArray(value)) throw wrongType([], value);
  return value;
}

/** How strategic merge patch treats a field. */
interface Field {
  readonly schema: Schema | undefined;
  readonly strategy: 'merge' | 'replace' | undefined;
  readonly mergeKey: string | undefined;
}

function fieldOf(parent: Schema | undefined, name: string): Field {
  const { properties = {}, additionalProperties } = parent ?? {};
  const others = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  const schema = Object.hasOwn(properties, name) ? properties[name] : others;
  const strategies = schema?.['x-kubernetes-patch-strategy']?.split(',') ?? [];
  return {
    schema,
    strategy: strategies.includes('merge') ? 'merge' : strategies.includes('replace') ? 'replace' : undefined,
    mergeKey: schema?.['x-kubernetes-patch-merge-key'],
  };
}

const rulesOf = ({ schema, mergeKey }: Field): ListRules => ({
  mergeKey,
  mergeItem: (live, patch) => mergeObjects(live, patch, schema?.items),
  newItem: asNew,
});

/**
 * A value of the patch without a live counterpart: nulls and directives are dropped. Undefined if it is a directive
 * itself.
 */
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
