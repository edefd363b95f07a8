import type { KubeObject } from '../../json/kube-object.ts';
import { isJsonObject, textIn, valueIn } from '../../json/json.ts';

/**
 * One line of a watch.
 * @see https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
 */
export type WatchEvent =
  /** Of a bookmark, only the resourceVersion counts. */
  | { readonly kind: 'set' | 'deleted' | 'bookmark'; readonly object: KubeObject }
  /** A Status object: the watch is over, and later events are lost. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string };

/** @throws when the line is not a watch event */
export function toWatchEvent(line: unknown): WatchEvent {
  const object = valueIn(line, 'object');
  const type = textIn(line, 'type');
  if (!isJsonObject(object)) throw new Error('the watch sent a line without an object');
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
      return { kind: 'set', object };
    case 'DELETED':
      return { kind: 'deleted', object };
    case 'BOOKMARK':
      return { kind: 'bookmark', object };
    case 'ERROR': {
      const { code } = object;
      const message = textIn(object, 'message') || 'no message';
      return { kind: 'error', code: typeof code === 'number' ? code : 500, message };
    }
    default:
      throw new Error(`the watch sent an event of the unknown type ${JSON.stringify(type)}`);
  }
}

/** Empty when the object has no resourceVersion. */
export function resourceVersionOf(object: KubeObject): string {
  return textIn(object, 'metadata', 'resourceVersion');
}

const NUMERIC = /^\d+$/;

/**
 * Whether `next` is older than `last`. An etcd goes back only when it is restored from a snapshot.
 * Other implementations of the API may use non-numeric versions: the answer for them is always false.
 */
export function isOlder(next: string, last: string): boolean {
  if (!NUMERIC.test(next) || !NUMERIC.test(last)) return false;
  return BigInt(next) < BigInt(last);
}
