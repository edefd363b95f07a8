/** Plans the next write to an object that a window pauses, or that an earlier one has paused. */
import { tryParsePath, valueAt, type ConcretePath } from '../../json/field-path.ts';
import { pointerOf, pointerPart, type JsonPatchOperation } from '../../json/json-patch.ts';
import { isEqual, isJsonObject, ownValue, jsonIn, stringifyJson, type JsonValue } from '../../json/json.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import { unchanged } from '../owner-links.ts';
import type { ActiveRule } from './rules.ts';

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
  return stringifyJson({
    path,
    set,
    ...(was === undefined ? {} : { was }),
    times,
    mac: sign(signedText(kind, object, record)),
  });
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
