import { isGone } from '../api-error.ts';
import type { ChangeSink } from './change.ts';
import { METADATA_ACCEPT } from '../rest-client.ts';
import { linkedController, type Clock } from '../clock.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { withKind, type Resource, resourcePath } from '../object.ts';
import type { Rest } from '../rest.ts';
import { isOlder, resourceVersionOf, toWatchEvent } from './watch-event.ts';

export interface WatchTiming {
  /** Each watch requests a random duration between these two, so that watches do not reconnect all at once. */
  readonly minSeconds: number;
  readonly maxSeconds: number;
  /** How long a watch may stay silent beyond the requested duration. */
  readonly marginMs: number;
  /** How long a watch may stay silent after its first bookmark: bookmarks arrive about every minute. */
  readonly silenceMs: number;
}

export interface WatchScope {
  readonly resource: Resource;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly metadataOnly?: boolean | undefined;
}

export interface WatchDeps<T extends KubeObject> {
  readonly rest: Rest;
  readonly scope: WatchScope;
  readonly sink: ChangeSink<T>;
  readonly timing: WatchTiming;
  readonly clock: Clock;
  readonly random: () => number;
  /** Reports that all changes up to this resourceVersion were seen. */
  readonly onProgress: (resourceVersion: string) => void;
  readonly onLine: () => void;
}

/** Why a watch ended without an error. */
export type WatchEnd =
  /** The requested duration is over, or the API server shut down: continue from the last position. */
  | { readonly kind: 'closed'; readonly lines: number }
  /** Later events are lost: list again. */
  | { readonly kind: 'lost-track'; readonly message: string };

/** @throws when the connection breaks or becomes silent, or when `parent` aborts */
export async function watchOnce<T extends KubeObject>(
  deps: WatchDeps<T>,
  since: string,
  parent: AbortSignal,
): Promise<WatchEnd> {
  const { rest, scope, timing, clock, random } = deps;
  const { resource, namespace, labelSelector, fieldSelector, metadataOnly = false } = scope;
  const seconds = Math.round(timing.minSeconds + random() * (timing.maxSeconds - timing.minSeconds));
  const { signal, abort, release } = linkedController(parent);
  const watchdog = createWatchdog(clock, abort);
  let limitMs = seconds * 1_000 + timing.marginMs;
  let lines = 0;
  let position = since;
  try {
    const events = rest.stream({
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
    for await (const line of events) {
      // Ignore lines that were in transit at the abort.
      if (signal.aborted) break;
      lines++;
      deps.onLine();
      const event = toWatchEvent(line);
      if (event.kind === 'error') return lostTrack(`the watch ended with ${event.code}: ${event.message}`);
      const version = event.kind === 'bookmark' ? event.resourceVersion : resourceVersionOf(event.object);
      if (isOlder(version, position)) return lostTrack(`resourceVersion ${version} came after ${position}`);
      apply(deps, event);
      if (version !== '') {
        position = version;
        deps.onProgress(version);
      }
      if (event.kind === 'bookmark') limitMs = Math.min(limitMs, timing.silenceMs);
      watchdog.restart(limitMs);
    }
    signal.throwIfAborted();
    return { kind: 'closed', lines };
  } catch (error) {
    if (isGone(error) && !signal.aborted) return lostTrack(error.message);
    throw error;
  } finally {
    watchdog.stop();
    release();
  }
}

function apply<T extends KubeObject>(
  { sink, scope }: WatchDeps<T>,
  event: ReturnType<typeof toWatchEvent>,
): void {
  // The caller of the reflector names the type that the API server serves for this resource.
  const typed = (object: KubeObject): T => withKind(scope.resource, object) as T;
  if (event.kind === 'set') sink.set(typed(event.object));
  if (event.kind === 'deleted') sink.remove(typed(event.object));
}

function lostTrack(message: string): WatchEnd {
  return { kind: 'lost-track', message };
}

function createWatchdog(clock: Clock, abort: (reason: Error) => void) {
  let cancel: () => void = () => undefined;
  return {
    restart: (ms: number): void => {
      cancel();
      cancel = clock.after(ms, () => {
        abort(new Error(`the watch was silent for ${Math.round(ms / 1_000)} s`));
      });
    },
    stop: (): void => {
      cancel();
    },
  };
}
