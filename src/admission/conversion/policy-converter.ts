/** Converts spoke → hub → spoke, and preserves values that a version cannot represent. */
import { createCelBudget, type CelBudget } from '../../cel/values/values.ts';
import {
  valueIn,
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { runSteps, type CompiledStep } from './compile-steps.ts';
import { annotationBytes, MOST_ANNOTATION_BYTES } from '../policy/object-metadata.ts';
import { ConversionFailure, versionOf } from './converter.ts';
import { withField, withFieldAt, withFields, withoutFieldAt } from './edit.ts';
import {
  findLossy,
  isSelected,
  annotationOf,
  encodePreserved,
  parsePreserved,
  putPreserved,
  takePreserved,
  type PreservedValue,
} from './preserved-annotation.ts';
import {
  pruneObject,
  fieldOf,
  fits,
  itemOf,
  OPEN,
  prune,
  schemaOf,
  type SchemaAt,
} from './structural-schema.ts';
import { isLabelValue, isQualifiedName } from '../../json/kube-object.ts';

export interface Spoke {
  readonly toHub: readonly CompiledStep[];
  readonly fromHub: readonly CompiledStep[];
}

interface ConversionPlan {
  readonly group: string;
  readonly hub: string;
  readonly spokes: ReadonlyMap<string, Spoke>;
  /** Keyed by version. Undefined: the API server keeps all fields. */
  readonly schemas: ReadonlyMap<string, JsonObject | undefined>;
  readonly roundTrip: 'Preserve' | 'Lossy';
}

/** The CEL cost limit of one object, for both directions. A list has thousands of objects, each with its own budget. */
export const COST_LIMIT = 2_000_000;

/** An object without our annotations, and their texts: preserved values of other versions. */
interface Converting {
  readonly object: JsonObject;
  readonly preserved: ReadonlyMap<string, string>;
}

/** Converts the result back to find what it lacks. An annotation preserves these values, and the conversion back restores them. */
export function convertByPlan(plan: ConversionPlan, object: JsonObject, to: string): JsonObject {
  const from = versionOf(object);
  if (from === to) return object;
  const { clean, preserved } = takePreserved(object);
  const budget = createCelBudget(COST_LIMIT);
  // An object of this version already has all of its values.
  const start = { object: clean, preserved: without(preserved, from) };
  const inHub = from === plan.hub ? start : convertOnce(plan, start, from, plan.hub, budget);
  const converted = to === plan.hub ? inHub : convertOnce(plan, inHub, plan.hub, to, budget);
  const result = putPreserved(converted.object, converted.preserved);
  if (converted.preserved.size > 0) checkSize(result, [...converted.preserved.keys()]);
  return result;
}

const without = (texts: ReadonlyMap<string, string>, version: string): Map<string, string> =>
  new Map([...texts].filter(([key]) => key !== version));

function convertOnce(
  plan: ConversionPlan,
  { object, preserved }: Converting,
  from: string,
  to: string,
  budget: CelBudget,
): Converting {
  const schema = plan.schemas.get(to);
  const stepped = stepTo(plan, object, from, to, budget);
  const text = preserved.get(to);
  const restored = text === undefined ? stepped : restorePreserved(stepped, parsePreserved(text), schema);
  const left = without(preserved, to);
  if (plan.roundTrip === 'Preserve') {
    // Sends the unpruned result: the API server drops unknown fields, and may know a newer schema than this replica.
    const stored = pruneObject(restored, schema);
    const back = pruneObject(stepBack(plan, stored, to, from, budget), plan.schemas.get(from));
    const lossy = findLossy(object, back, plan.schemas.get(from));
    if (lossy.length > 0) left.set(from, encodePreserved(lossy));
  }
  return { object: restored, preserved: left };
}

function stepTo(
  { group, hub, spokes }: ConversionPlan,
  object: JsonObject,
  from: string,
  to: string,
  budget: CelBudget,
): JsonObject {
  const [version, direction] = to === hub ? ([from, 'toHub'] as const) : ([to, 'fromHub'] as const);
  const spoke = spokes.get(version);
  if (spoke === undefined)
    throw new ConversionFailure(`version ${quote(version)} lacks steps; add it to spec.versions`);
  return withField(runSteps(spoke[direction], object, budget), 'apiVersion', `${group}/${to}`);
}

/** Rejects an object that cannot be converted back, because clients of its version could not read it. */
function stepBack(
  plan: ConversionPlan,
  object: JsonObject,
  from: string,
  to: string,
  budget: CelBudget,
): JsonObject {
  try {
    return stepTo(plan, object, from, to, budget);
  } catch (error) {
    if (!(error instanceof ConversionFailure)) throw error;
    throw new ConversionFailure(`the result could not be converted back to ${to}: ${error.message}`, {
      cause: error,
    });
  }
}

function checkSize(object: JsonObject, versions: readonly string[]): void {
  const bytes = annotationBytes(valueIn(object, 'metadata', 'annotations'));
  if (bytes <= MOST_ANNOTATION_BYTES) return;
  throw new ConversionFailure(
    `${versions.map(annotationOf).join(' and ')}: the values that this version cannot represent are too large: ` +
      `all annotations would have ${bytes} bytes, more than ${MOST_ANNOTATION_BYTES}. Add fields for them to the version, ` +
      'remove some in the steps of both directions, or set roundTrip: Lossy',
  );
}

/**
 * Restores each value whose parent exists, unless a user has changed the source fields: then the steps produce another value than
 * the recorded one. Users can write the annotation, so no value may make the object violate its schema: that would fail every list.
 */
function restorePreserved(
  object: JsonObject,
  values: readonly PreservedValue[],
  schema: JsonObject | undefined,
): JsonObject {
  const marks = values.filter(({ path }) => path[0] === 'metadata');
  const fields = values.filter(({ path }) => path[0] !== 'metadata');
  const changed = restoreBelow(object, fields, 0, schemaOf(schema));
  return marks.reduce(restoreMark, isJsonObject(changed) ? changed : object);
}

/** Restores all values below one path, so that each container is copied once. @param depth of `current` */
function restoreBelow(
  current: JsonValue,
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue {
  if (values.length === 0) return current;
  if (isJsonObject(current)) return restoreFields(current, values, depth, at);
  return isJsonArray(current) ? restoreItems(current, values, depth, at) : current;
}

function restoreFields(
  object: JsonObject,
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonObject {
  const changes = new Map<string, JsonValue | undefined>();
  for (const [key, group] of Map.groupBy(values, ({ path }) => path[depth])) {
    if (typeof key !== 'string') continue;
    const before = valueIn(object, key);
    const after = restoreAt(before, group, depth, fieldOf(at, key));
    if (after !== before) changes.set(key, after);
  }
  return withFields(object, changes);
}

function restoreItems(
  list: readonly JsonValue[],
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue {
  const below = itemOf(at);
  const changed = [...list];
  for (const group of Map.groupBy(values, ({ path }) => JSON.stringify(path[depth])).values()) {
    const selector = group[0]?.path[depth];
    if (!isJsonObject(selector)) continue;
    const index = list.findIndex((item) => isSelected(item, selector));
    const before = list[index];
    if (before !== undefined) changed[index] = restoreAt(before, group, depth, below) ?? before;
  }
  return changed.every((item, index) => item === list[index]) ? list : changed;
}

function restoreAt(
  before: JsonValue | undefined,
  group: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue | undefined {
  const own = group.findLast(({ path }) => path.length === depth + 1);
  if (own !== undefined) return newest(before, own, at);
  return before === undefined ? undefined : restoreBelow(before, group, depth + 1, at);
}

/** Restores a label or an annotation, even if the map is missing, because the API server drops empty maps. */
function restoreMark(object: JsonObject, kept: PreservedValue): JsonObject {
  const [, map, key] = kept.path;
  if (typeof map !== 'string' || typeof key !== 'string') return object;
  const before = valueIn(object, 'metadata', map, key);
  const after = newest(before, kept, OPEN);
  if (after === before) return object;
  if (after === undefined) return withoutFieldAt(object, ['metadata', map, key], 1);
  const isValid =
    isQualifiedName(key) && typeof after === 'string' && (map !== 'labels' || isLabelValue(after));
  return isValid ? withFieldAt(object, ['metadata', map, key], after) : object;
}

function newest(
  current: JsonValue | undefined,
  { value, derived }: PreservedValue,
  at: SchemaAt,
): JsonValue | undefined {
  // Ignores what the API server drops, because it was absent when the value was preserved.
  const stored = current === undefined ? undefined : prune(current, at);
  if (isEqual(stored, derived)) return value === undefined || fits(value, at) ? value : current;
  if (!isJsonArray(current) || !isJsonArray(stored)) return current;
  if (!isJsonArray(derived) || !isJsonArray(value)) return current;
  const merged = mergeLists(current, stored, { derived, value });
  return fits(merged, at) ? merged : current;
}

/** The limit of elements to compare between the common start and the common end. */
const MOST_COMPARED = 64;

/** Restores unchanged elements, keeps new and changed ones. @param stored `current` as stored */
function mergeLists(
  current: readonly JsonValue[],
  stored: readonly JsonValue[],
  { derived, value }: { readonly derived: readonly JsonValue[]; readonly value: readonly JsonValue[] },
): readonly JsonValue[] {
  if (derived.length !== value.length) return current;
  const shorter = Math.min(stored.length, derived.length);
  let start = 0;
  while (start < shorter && isEqual(stored[start], derived[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isEqual(stored.at(-1 - end), derived.at(-1 - end))) end += 1;

  const grown = stored.length - derived.length;
  const left = [...derived.keys()].slice(start, derived.length - end);
  const isShort = left.length <= MOST_COMPARED && stored.length - start - end <= MOST_COMPARED;
  return current.map((item, index) => {
    if (index < start) return value[index] ?? item;
    if (index >= stored.length - end) return value[index - grown] ?? item;
    if (!isShort) return item;
    const found = left.findIndex((place) => isEqual(derived[place], stored[index]));
    const [place] = found === -1 ? [] : left.splice(found, 1);
    return place === undefined ? item : (value[place] ?? item);
  });
}
