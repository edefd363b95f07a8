/** The previous value of a paused field, kept on the object itself. Users can write it too, so it is signed. */
import { isJsonObject, ownValue, parseJson, stringifyJson, type JsonValue } from '../../json/json.ts';
import type { KubeObject, GroupResource } from '../../json/kube-object.ts';

export const QUIESCE_ANNOTATION = 'gatehouse.dev/quiesced';
/** Finds paused objects. */
export const QUIESCE_LABEL = 'gatehouse.dev/quiesced';

export interface QuiesceRecord {
  readonly path: string;
  /** The value that Gatehouse has set. */
  readonly set: JsonValue;
  /** The previous value; undefined: the field was absent. */
  readonly was: JsonValue | undefined;
  /** How often Gatehouse has paused the object: others may undo it. */
  readonly times: number;
}

/** Returns the MAC of a text under a key that only Gatehouse reads. */
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
export function readRecord(
  kind: GroupResource,
  object: KubeObject,
  sign: Sign,
): QuiesceRecord | 'foreign' | undefined {
  const text: unknown = object.metadata?.annotations?.[QUIESCE_ANNOTATION];
  if (text === undefined) return undefined;
  const value = typeof text === 'string' && text.length <= MAX_LENGTH ? parsed(text) : undefined;
  if (!isJsonObject(value)) return 'foreign';
  const { path, set = null, times } = value;
  if (typeof path !== 'string' || typeof times !== 'number') return 'foreign';
  const was = ownValue(value, 'was') as JsonValue | undefined; // JSON
  const record = { path, set, was, times };
  return value.mac === sign(signedText(kind, object, record)) ? record : 'foreign';
}

function parsed(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
