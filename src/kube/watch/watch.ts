import { isGone } from '../api-error.ts';
import { METADATA_ACCEPT, type CallOptions, type ListOptions } from '../client.ts';
import { linkedController, type Clock } from '../clock.ts';
import { type Resource, resourcePath } from '../object.ts';
import type { Rest } from '../rest.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isJsonObject, textIn, valueIn } from '../../json/json.ts';

export interface WatchTiming {
  readonly minSeconds: number;
  readonly maxSeconds: number;
  readonly marginMs: number;
  /** How long a watch may stay silent after its first bookmark: bookmarks arrive about every minute. */
  readonly silenceMs: number;
}

export interface WatchScope extends Omit<ListOptions, 'limit' | 'continue' | keyof CallOptions> {
  readonly resource: Resource;
}

export class LostTrackError extends Error {
  override readonly name = 'LostTrackError';
}

/** @throws {LostTrackError} when later events are lost, or when the connection breaks or becomes silent */
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
  let limitMs = seconds * 1_000 + marginMs;
  let position = since;
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
      if (event.kind === 'bookmark') limitMs = Math.min(limitMs, silenceMs);
      watchdog.restart(limitMs);
    }
    signal.throwIfAborted();
  } catch (error) {
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
