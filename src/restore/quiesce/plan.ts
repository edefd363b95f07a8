/** Plans the next write to an object that a window pauses, or that an earlier one has paused. */
import { tryParsePath, valueAt, type ConcretePath } from '../../json/field-path.ts';
import {
  isEqual,
  isJsonObject,
  ownValue,
  jsonIn,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import { depthBelow } from '../owner-order.ts';
import type { QuiesceRule } from '../../api/quiesce.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { covers, windowProblems, windowState, DEFAULT_PATH, quiesceProblems } from '../window.ts';

/** `after`: the object with the change. */
export type QuiescePlan =
  | { readonly kind: 'none'; readonly state: 'untouched' | 'paused' | 'overridden' | 'foreign' | 'too-long' }
  | { readonly kind: 'pause' | 'undo'; readonly after: JsonObject };

/** After this many pauses of one object, the other writer wins. */
const MAX_TIMES = 3;

const none = (state: Extract<QuiescePlan, { kind: 'none' }>['state']) => ({ kind: 'none', state }) as const;

type Pausing = Pick<ActiveRule, 'path' | 'keys' | 'value' | 'pauses'>;

/** @param rules the active rules that apply to the object, in order */
export function planQuiesce(
  kind: GroupResource,
  object: KubeObject,
  rules: readonly Pausing[],
  sign: Sign,
): QuiescePlan {
  const record = readRecord(kind, object, sign);
  const rule = rules.find(({ pauses }) => pauses);
  if (record === undefined || record === 'foreign') {
    if (rule === undefined || object.metadata?.deletionTimestamp !== undefined)
      return none(record === 'foreign' ? 'foreign' : 'untouched');
    const was = valueAt(object, rule.keys);
    if (!isEqual(was, rule.value)) return pauseIt(kind, object, rule, { was, times: 1 }, sign);
    // It was paused before the window, or in a backup of another cluster.
    return none(record === 'foreign' ? 'foreign' : 'untouched');
  }
  const keys = keysOf(record.path);
  if (keys === undefined) return none('foreign');
  const current = valueAt(object, keys);
  const isPaused = isEqual(current, record.set);
  if (rules.some(({ path }) => path === record.path)) {
    if (isPaused) return none('paused');
    if (rule?.path !== record.path || record.times >= MAX_TIMES) return none('overridden');
    // The backup tool or a user has set a new value, so that value is the one to restore.
    return pauseIt(kind, object, rule, { was: current, times: record.times + 1 }, sign);
  }
  const unmarked = withoutMarks(object);
  return { kind: 'undo', after: isPaused ? withValue(unmarked, keys, record.was, record.made) : unmarked };
}

/** For a write by a restorer: the value that it sets is restored later. Undefined: the write is fine as it is. */
export function pausedWrite(
  kind: GroupResource,
  { object, before }: { readonly object: KubeObject; readonly before: KubeObject | undefined },
  rules: readonly Pausing[],
  sign: Sign,
): JsonObject | undefined {
  const record = readRecord(kind, object, sign);
  const keys = typeof record === 'object' ? keysOf(record.path) : undefined;
  if (typeof record === 'object' && keys !== undefined) {
    const written = valueAt(object, keys);
    const isOfOthers = before !== undefined && isEqual(written, valueAt(before, keys));
    if (isOfOthers || isEqual(written, record.set)) return undefined;
  }
  const plan = planQuiesce(kind, keys === undefined ? object : withoutMarks(object), rules, sign);
  return plan.kind === 'pause' ? plan.after : undefined;
}

function pauseIt(
  kind: GroupResource,
  object: KubeObject,
  { path, keys, value: set }: Pick<ActiveRule, 'path' | 'keys' | 'value'>,
  { was, times }: { readonly was: JsonValue | undefined; readonly times: number },
  sign: Sign,
): QuiescePlan {
  const parents = keys.slice(0, -1).map((_key, depth) => valueAt(object, keys.slice(0, depth + 1)));
  const made = parents.filter((parent) => parent === undefined).length;
  if (parents.slice(0, parents.length - made).some((parent) => !isJsonObject(parent)))
    return none('untouched');
  const text = encodeRecord(kind, object, { path, set, was, times, made }, sign);
  if (text.length > MAX_LENGTH) return none('too-long');
  const edits: readonly [ConcretePath, JsonValue][] = [
    [keys, set],
    [['metadata', 'annotations', QUIESCE_ANNOTATION], text],
    [['metadata', 'labels', QUIESCE_LABEL], 'true'],
  ];
  const paused = edits.reduce((edited, [at, value]) => withValue(edited, at, value), toJson(object));
  return { kind: 'pause', after: paused };
}

const keysOf = (path: string): ConcretePath | undefined => tryParsePath(path)?.concrete?.keys;

const toJson = (object: KubeObject) => object as JsonObject; // the API server sent it as JSON

/** Undefined removes the field, and the last `made` of its parents if they become empty. */
function withValue(
  object: JsonObject,
  [key = '', ...rest]: ConcretePath,
  value: JsonValue | undefined,
  made = 0,
): JsonObject {
  const { [key]: current, ...others } = object;
  const inner = isJsonObject(current) ? current : {};
  const next = rest.length === 0 ? value : withValue(inner, rest, value, made);
  const isLeft = isJsonObject(next) && rest.length > 0 && rest.length <= made;
  if (next === undefined || (isLeft && value === undefined && Object.keys(next).length === 0)) return others;
  return { ...object, [key]: next };
}

const withoutMarks = (object: KubeObject): JsonObject =>
  [
    ['annotations', QUIESCE_ANNOTATION],
    ['labels', QUIESCE_LABEL],
  ].reduce((edited, at) => {
    const keys = ['metadata', ...at];
    return valueAt(edited, keys) === undefined ? edited : withValue(edited, keys, undefined, 1);
  }, toJson(object));

export interface Undoable {
  readonly kind: GroupResource;
  readonly object: KubeObject;
  /** Lower ones are undone earlier. */
  readonly rank: number;
}

/** Owners before their dependents, then by rank. Objects of one level can be undone together. */
export function undoOrder(found: readonly Undoable[]): readonly (readonly Undoable[])[] {
  const byUid = new Map<string | undefined, Undoable>();
  for (const one of found) if (!byUid.has(one.object.metadata?.uid)) byUid.set(one.object.metadata?.uid, one);
  const depthOf = depthBelow<Undoable>(
    ({ object }) => object.metadata?.ownerReferences?.flatMap(({ uid }) => byUid.get(uid) ?? []) ?? [],
  );
  const levels = Map.groupBy(byUid.values(), (one) => depthOf(one) * found.length + one.rank);
  return [...levels].sort(([a], [b]) => a - b).map(([, level]) => level);
}

export const QUIESCE_ANNOTATION = 'gatehouse.dev/quiesced';
export const QUIESCE_LABEL = 'gatehouse.dev/quiesced';

/** Kept on the object itself. Users can write it too, so it is signed. */
interface QuiesceRecord {
  readonly path: string;
  readonly set: JsonValue;
  readonly was: JsonValue | undefined;
  readonly times: number;
  /** How many parents of the field were absent. */
  readonly made: number;
}

/** The MAC under a key that only Gatehouse reads. */
export type Sign = (text: string) => string;

/** Of a record. The API server accepts 256 KiB for all annotations of an object. */
const MAX_LENGTH = 32 * 1_024;

/** The record belongs to one kind, namespace and name. Not to the uid: a backup may contain a paused object. */
function signedText(kind: GroupResource, { metadata = {} }: KubeObject, record: QuiesceRecord): string {
  const { path, set, was, times, made } = record;
  const self = [kind.group, kind.resource, metadata.namespace ?? '', metadata.name ?? ''];
  const parents = made === 0 ? [] : [made]; // earlier versions did not record them
  return stringifyJson([...self, path, set, was === undefined ? [] : [was], times, ...parents]);
}

export function encodeRecord(
  kind: GroupResource,
  object: KubeObject,
  record: QuiesceRecord,
  sign: Sign,
): string {
  const { was, made, ...others } = record;
  const mac = sign(signedText(kind, object, record));
  const optional = { ...(was === undefined ? {} : { was }), ...(made === 0 ? {} : { made }) };
  return stringifyJson({ ...others, ...optional, mac });
}

/** `foreign`: another installation or a user has written it, or somebody has removed it and left the label. */
function readRecord(
  kind: GroupResource,
  object: KubeObject,
  sign: Sign,
): QuiesceRecord | 'foreign' | undefined {
  const { annotations, labels } = object.metadata ?? {};
  const text: unknown = annotations?.[QUIESCE_ANNOTATION];
  if (text === undefined) return labels?.[QUIESCE_LABEL] === undefined ? undefined : 'foreign';
  const value = typeof text === 'string' && text.length <= MAX_LENGTH ? jsonIn(text) : undefined;
  if (!isJsonObject(value)) return 'foreign';
  const { path, set = null, times, made = 0 } = value;
  if (typeof path !== 'string' || typeof times !== 'number' || typeof made !== 'number') return 'foreign';
  const was = ownValue(value, 'was') as JsonValue | undefined; // JSON
  const record = { path, set, was, times, made };
  return value.mac === sign(signedText(kind, object, record)) ? record : 'foreign';
}

export interface ActiveRule extends GroupResource {
  readonly window: RestoreWindow;
  readonly rule: QuiesceRule;
  readonly pauses: boolean;
  readonly path: string;
  readonly keys: ConcretePath;
  readonly value: JsonValue;
}

/** How long objects stay paused after the end if no final sweep succeeds. */
const MAX_SWEEP_WAIT_MS = 15 * 60_000;

export function activeRules(window: RestoreWindow, now: Date, settleMs: number): readonly ActiveRule[] {
  const rules = window.spec.quiesce ?? [];
  if (rules.length === 0 || window.status?.phase === 'Refused' || quiesceProblems(rules).length > 0)
    return [];
  // The status says that it is open: two controllers would conflict over the first write of it.
  const isOpen = window.status?.openedAt !== undefined && windowState(window, now).kind === 'open';
  const pauses = isOpen && windowProblems(window).length === 0;
  return pauses || isSettling(window, now, settleMs) ? toActive(window, pauses) : [];
}

const toActive = (window: RestoreWindow, pauses: boolean): readonly ActiveRule[] =>
  (window.spec.quiesce ?? []).map((rule) => {
    const { path = DEFAULT_PATH, value = 0 } = rule;
    // the API server sent the value as JSON
    return {
      ...kindOf(rule),
      window,
      rule,
      pauses,
      path,
      keys: keysOf(path) ?? [],
      value: value as JsonValue,
    };
  });

/** For the writes of restorers: the window is open, even if its status does not say so yet. */
export const rulesOfOpen = (window: RestoreWindow): readonly ActiveRule[] =>
  quiesceProblems(window.spec.quiesce).length > 0 ? [] : toActive(window, true);

function isSettling(window: RestoreWindow, now: Date, settleMs: number): boolean {
  const { openedAt, closedAt, lastSweep } = window.status ?? {};
  // Writes of restorers may have been paused already.
  if (openedAt === undefined) return windowState(window, now).kind === 'open';
  if (closedAt === undefined) return true; // the leader writes it within seconds
  const isSwept =
    lastSweep !== undefined && !lastSweep.interim && Date.parse(lastSweep.startedAt) >= Date.parse(closedAt);
  return !isSwept && now.getTime() < Date.parse(closedAt) + settleMs + MAX_SWEEP_WAIT_MS;
}

export const kindOf = ({ apiGroup, resource }: QuiesceRule): GroupResource => ({ group: apiGroup, resource });

/** Never outside of the namespaces of the window. */
export function appliesTo(
  { window, rule, group, resource }: ActiveRule,
  { metadata = {} }: KubeObject,
  ownNamespace: string,
): boolean {
  const { namespace, labels = {} } = metadata;
  // Gatehouse and the backup tool must go on.
  if (namespace === ownNamespace) return false;
  if (namespace !== undefined && namespace === window.spec.source?.ref?.namespace) return false;
  if (rule.namespaces !== undefined && !rule.namespaces.some((one) => one === namespace)) return false;
  // `match.resources` names what the backup tool writes, not what is paused.
  const match = { ...window.spec.match, resources: [] };
  return (
    covers({ ...window.spec, match }, { group, resource, namespace }) &&
    Object.entries(rule.matchLabels ?? {}).every(([key, value]) => labels[key] === value)
  );
}

/** Undefined: everywhere. */
export const placesOfRule = ({ rule, window }: Pick<ActiveRule, 'rule' | 'window'>) => {
  const { include = [] } = window.spec.match?.namespaces ?? {};
  return rule.namespaces ?? (include.length > 0 ? include : undefined);
};
