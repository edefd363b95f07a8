/** Plans the next write to an object that a window pauses, or that an earlier one has paused. */
import { tryParsePath, valueAt, type ConcretePath } from '../../json/field-path.ts';
import { pointerOf, pointerPart, type JsonPatchOperation } from '../../json/json-patch.ts';
import { isEqual, isJsonObject, ownValue, jsonIn, stringifyJson, type JsonValue } from '../../json/json.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import { unchanged } from '../owner-links.ts';
import type { QuiesceRule } from '../../api/quiesce.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { covers, windowProblems, windowState, DEFAULT_PATH, quiesceProblems } from '../window.ts';

export type QuiescePlan =
  | { readonly kind: 'none'; readonly state: 'untouched' | 'paused' | 'overridden' | 'foreign' }
  | { readonly kind: 'pause' | 'undo'; readonly operations: readonly JsonPatchOperation[] };

/** After this many pauses of one object, the other writer wins. */
const MAX_TIMES = 3;

const none = (state: Extract<QuiescePlan, { kind: 'none' }>['state']) => ({ kind: 'none', state }) as const;

/** @param rules the active rules that apply to the object, in order */
export function planQuiesce(
  kind: GroupResource,
  object: KubeObject,
  rules: readonly Pick<ActiveRule, 'path' | 'keys' | 'value' | 'pauses'>[],
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
  const keys = tryParsePath(record.path)?.concrete?.keys;
  if (keys === undefined) return none('foreign');
  const current = valueAt(object, keys);
  const isPaused = isEqual(current, record.set);
  if (rules.some(({ path }) => path === record.path)) {
    if (isPaused) return none('paused');
    if (rule?.path !== record.path || record.times >= MAX_TIMES) return none('overridden');
    // The backup tool or a user has set a new value, so that value is the one to restore.
    return pauseIt(kind, object, rule, { was: current, times: record.times + 1 }, sign);
  }
  const restored = isPaused ? write(keys, current, record.was) : [];
  return { kind: 'undo', operations: [...unchanged(object), ...restored, ...withoutMarks(object)] };
}

function pauseIt(
  kind: GroupResource,
  object: KubeObject,
  { path, keys, value: set }: Pick<ActiveRule, 'path' | 'keys' | 'value'>,
  { was, times }: { readonly was: JsonValue | undefined; readonly times: number },
  sign: Sign,
): QuiescePlan {
  const { annotations, labels } = object.metadata ?? {};
  const text = encodeRecord(kind, object, { path, set, was, times }, sign);
  const operations = [
    ...unchanged(object), // otherwise the record could contain a wrong previous value
    ...parents(object, keys),
    ...write(keys, was, set),
    ...mark('annotations', annotations, QUIESCE_ANNOTATION, text),
    ...mark('labels', labels, QUIESCE_LABEL, 'true'),
  ];
  return { kind: 'pause', operations };
}

function parents(object: KubeObject, keys: ConcretePath): readonly JsonPatchOperation[] {
  return keys.slice(0, -1).flatMap((_key, depth) => {
    const above = keys.slice(0, depth + 1);
    return isJsonObject(valueAt(object, above))
      ? []
      : [{ op: 'add' as const, path: pointerOf(above), value: {} }];
  });
}

function write(
  keys: ConcretePath,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
): readonly JsonPatchOperation[] {
  if (after !== undefined) return [{ op: 'add', path: pointerOf(keys), value: after }];
  return before === undefined ? [] : [{ op: 'remove', path: pointerOf(keys) }];
}

function mark(
  map: 'annotations' | 'labels',
  present: Readonly<Record<string, string>> | undefined,
  key: string,
  value: string,
): readonly JsonPatchOperation[] {
  return present === undefined
    ? [{ op: 'add', path: `/metadata/${map}`, value: { [key]: value } }]
    : [{ op: 'add', path: `/metadata/${map}${pointerPart(key)}`, value }];
}

function withoutMarks({ metadata: { annotations, labels } = {} }: KubeObject): readonly JsonPatchOperation[] {
  const remove = (map: string, present: Readonly<Record<string, string>> | undefined, key: string) =>
    present?.[key] === undefined
      ? []
      : [{ op: 'remove' as const, path: `/metadata/${map}${pointerPart(key)}` }];
  return [
    ...remove('annotations', annotations, QUIESCE_ANNOTATION),
    ...remove('labels', labels, QUIESCE_LABEL),
  ];
}

export const QUIESCE_ANNOTATION = 'gatehouse.dev/quiesced';
export const QUIESCE_LABEL = 'gatehouse.dev/quiesced';

/** Kept on the object itself. Users can write it too, so it is signed. */
interface QuiesceRecord {
  readonly path: string;
  readonly set: JsonValue;
  readonly was: JsonValue | undefined;
  readonly times: number;
}

/** The MAC under a key that only Gatehouse reads. */
export type Sign = (text: string) => string;

const MAX_LENGTH = 4_096;

/** The record belongs to one kind, namespace and name. Not to the uid: a backup may contain a paused object. */
function signedText(kind: GroupResource, { metadata = {} }: KubeObject, record: QuiesceRecord): string {
  const { path, set, was, times } = record;
  const self = [kind.group, kind.resource, metadata.namespace ?? '', metadata.name ?? ''];
  return stringifyJson([...self, path, set, was === undefined ? [] : [was], times]);
}

export function encodeRecord(
  kind: GroupResource,
  object: KubeObject,
  record: QuiesceRecord,
  sign: Sign,
): string {
  const { path, set, was, times } = record;
  const mac = sign(signedText(kind, object, record));
  return stringifyJson({ path, set, ...(was === undefined ? {} : { was }), times, mac });
}

/** `foreign`: another installation or a user has written it. */
function readRecord(
  kind: GroupResource,
  object: KubeObject,
  sign: Sign,
): QuiesceRecord | 'foreign' | undefined {
  const text: unknown = object.metadata?.annotations?.[QUIESCE_ANNOTATION];
  if (text === undefined) return undefined;
  const value = typeof text === 'string' && text.length <= MAX_LENGTH ? jsonIn(text) : undefined;
  if (!isJsonObject(value)) return 'foreign';
  const { path, set = null, times } = value;
  if (typeof path !== 'string' || typeof times !== 'number') return 'foreign';
  const was = ownValue(value, 'was') as JsonValue | undefined; // JSON
  const record = { path, set, was, times };
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
  if (!pauses && !isSettling(window, now, settleMs)) return [];
  return rules.map((rule) => {
    const { path = DEFAULT_PATH, value = 0 } = rule;
    const keys = tryParsePath(path)?.concrete?.keys ?? [];
    // the problems above leave plain values only
    return { ...kindOf(rule), window, rule, pauses, path, keys, value: value as JsonValue };
  });
}

function isSettling({ status = {} }: RestoreWindow, now: Date, settleMs: number): boolean {
  const { openedAt, closedAt, lastSweep } = status;
  if (openedAt === undefined) return false;
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
    Object.entries(rule.matchLabels).every(([key, value]) => labels[key] === value)
  );
}

/** Undefined: everywhere. */
export const placesOfRule = ({ rule, window }: Pick<ActiveRule, 'rule' | 'window'>) => {
  const { include = [] } = window.spec.match?.namespaces ?? {};
  return rule.namespaces ?? (include.length > 0 ? include : undefined);
};
