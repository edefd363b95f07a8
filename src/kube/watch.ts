import { isJsonObject, textIn, valueIn } from '../json/json.ts';
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import type { Log } from '../log.ts';
import { isGone } from './api-error.ts';
import { type CallOptions, type ListOptions, METADATA_ACCEPT } from './client.ts';
import { type Clock, linkedController } from './clock.ts';
import { type Resource, resourcePath } from './object.ts';
import type { Rest } from './rest.ts';
import type { WritableStore } from './store.ts';

/** What happened to an object. A new uid under the same name is two changes: deleted and added. */
export type Change<T> =
  | { readonly kind: 'added'; readonly object: T }
  | { readonly kind: 'changed'; readonly object: T; readonly previous: T }
  /** `object` is its last known state. */
  | { readonly kind: 'deleted'; readonly object: T };

/** Reports each difference exactly once, after the store has changed. `consume` may throw or reject. */
export function createChangeSink<T extends KubeObject>(
  store: WritableStore<T>,
  transform: (object: T) => T,
  consume: (key: string, change: Change<T>) => unknown,
  log: Pick<Log, 'error'>,
) {
  const tell = (key: string, change: Change<T>): void => {
    const failed = (error: unknown): void => {
      log.error({ key, change: change.kind, err: error }, 'a consumer of changes failed');
    };
    try {
      const result = consume(key, change);
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  };

  const prepare = (key: string, object: T): T => {
    try {
      return transform(object);
    } catch (error) {
      // Keep the untransformed object: a missing object would look deleted.
      log.error({ key, err: error }, 'could not transform an object');
      return object;
    }
  };

  const drop = (key: string): void => {
    const object = store.get(key);
    if (object === undefined) return;
    store.delete(key);
    tell(key, { kind: 'deleted', object });
  };

  const put = (object: T, everything: boolean, transformed: (key: string, object: T) => T): void => {
    const key = keyOf(object);
    const known = store.get(key);
    if (known !== undefined && known.metadata?.uid !== object.metadata?.uid) drop(key);
    const previous = store.get(key);
    if (previous !== undefined && !everything && sameVersion(previous, object)) return;
    try {
      const stored = store.set(key, transformed(key, object));
      tell(
        key,
        previous === undefined
          ? { kind: 'added', object: stored }
          : { kind: 'changed', object: stored, previous },
      );
    } catch (error) {
      log.error({ key, err: error }, 'could not store an object: an index function failed');
    }
  };

  return {
    set: (object: T): void => put(object, false, prepare),
    remove: (object: T): void => drop(keyOf(object)),
    prepare: (object: T): T => prepare(keyOf(object), object),
    /** `everything` reports even objects that look unchanged: after a rollback two states may share a resourceVersion. */
    replaceAll: (objects: readonly T[], everything: boolean): void => {
      const present = new Set(objects.map(keyOf));
      for (const key of store.keys()) if (!present.has(key)) drop(key);
      for (const object of objects) put(object, everything, (_key, prepared) => prepared);
    },
  };
}

function sameVersion(a: KubeObject, b: KubeObject): boolean {
  const version = a.metadata?.resourceVersion;
  return version !== undefined && version !== '' && version === b.metadata?.resourceVersion;
}

/** managedFields often take half of an object, and no reader of a cache needs them. */
export function dropManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata !== undefined) Reflect.deleteProperty(object.metadata, 'managedFields');
  return object;
}

export interface WatchTiming {
  readonly minSeconds: number;
  readonly maxSeconds: number;
  readonly marginMs: number;
  /** How long a watch may stay silent: bookmarks arrive about every minute. */
  readonly silenceMs: number;
}

export interface WatchScope extends Omit<ListOptions, 'limit' | 'continue' | keyof CallOptions> {
  readonly resource: Resource;
}

export class LostTrackError extends Error {
  override readonly name = 'LostTrackError';
}

/** @throws {LostTrackError} when later events are lost, or when the connection breaks or becomes silent after a bookmark */
export async function* watchOnce(
  rest: Rest,
  { resource, namespace, labelSelector, fieldSelector, metadataOnly = false }: WatchScope,
  since: string,
  { minSeconds, maxSeconds, marginMs, silenceMs }: WatchTiming,
  clock: Clock,
  random: () => number,
  parent: AbortSignal,
): AsyncGenerator<ObjectEvent, void, undefined> {
  const seconds = Math.round(minSeconds + random() * (maxSeconds - minSeconds));
  const { signal, abort, release } = linkedController(parent);
  const watchdog = createWatchdog(clock, abort);
  const limitMs = Math.min(seconds * 1_000 + marginMs, silenceMs);
  let position = since;
  let sendsBookmarks = false;
  try {
    const lines = rest.stream({
      path: resourcePath(resource, { namespace }),
      query: {
        watch: true,
        allowWatchBookmarks: true,
        timeoutSeconds: seconds,
        resourceVersion: since,
        labelSelector,
        fieldSelector,
      },
      headers: metadataOnly ? { accept: METADATA_ACCEPT } : undefined,
      signal,
    });
    watchdog.restart(limitMs);
    for await (const line of lines) {
      // Ignore lines that were in transit at the abort.
      if (signal.aborted) break;
      const event = toWatchEvent(line);
      if (event.kind === 'error')
        throw new LostTrackError(`the watch ended with ${event.code}: ${event.message}`);
      const version = resourceVersionOf(event.object);
      if (isOlder(version, position))
        throw new LostTrackError(`resourceVersion ${version} came after ${position}`);
      yield event;
      if (version !== '') position = version;
      if (event.kind === 'bookmark') sendsBookmarks = true;
      watchdog.restart(limitMs);
    }
    signal.throwIfAborted();
  } catch (error) {
    // Some aggregated API servers send no bookmarks. The read before the next watch finds out whether this one is frozen.
    if (signal.aborted && !parent.aborted && !sendsBookmarks) return;
    if (isGone(error) && !signal.aborted) throw new LostTrackError(error.message, { cause: error });
    throw error;
  } finally {
    watchdog.stop();
    release();
  }
}

type ObjectEvent = Exclude<WatchEvent, { readonly kind: 'error' }>;

function createWatchdog(clock: Clock, abort: (reason: Error) => void) {
  let cancel: () => void = () => undefined;
  return {
    restart: (ms: number): void => {
      cancel();
      cancel = clock.after(ms, () => {
        abort(new Error(`the watch was silent for ${Math.round(ms / 1_000)} s`));
      });
    },
    stop: (): void => cancel(),
  };
}

type WatchEvent =
  | { readonly kind: 'set' | 'deleted' | 'bookmark'; readonly object: KubeObject }
  /** A Status object: the watch is over, and later events are lost. */
  | { readonly kind: 'error'; readonly code: number; readonly message: string };

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

export const resourceVersionOf = (object: KubeObject): string =>
  textIn(object, 'metadata', 'resourceVersion');

const NUMERIC = /^\d+$/;

/** False for versions that are not numbers, which other implementations of the API have. */
export function isOlder(next: string, last: string): boolean {
  if (!NUMERIC.test(next) || !NUMERIC.test(last)) return false;
  return BigInt(next) < BigInt(last);
}
