import { setImmediate } from 'node:timers/promises';
import { ApiError, isGone, NetworkError } from './api-error.ts';
import {
  backoffMs,
  type BackoffOptions,
  linkedController,
  orAborted,
  sleep,
  systemClock,
  type Clock,
} from './clock.ts';
import { createChangeSink, dropManagedFields, type Change } from './watch/change.ts';
import { createClient } from './rest-client.ts';
import type { Log } from '../log.ts';
import { groupResourceName, type KubeObject } from '../json/kube-object.ts';
import { watchOnce, type WatchScope, type WatchTiming } from './watch/watch.ts';
import type { Rest } from './rest.ts';
import type { WritableStore } from './store.ts';
import { isOlder } from './watch/watch-event.ts';

export type { Change } from './watch/change.ts';

export interface ReflectorTiming extends WatchTiming {
  /** A watch that lived this long was a good one: what fails next is a first failure again. */
  readonly stableMs: number;
  readonly backoff: BackoffOptions;
  /** The longest wait while there is no answer at all: asking costs the API server nothing then, and what is stored grows old. */
  readonly unreachableMaxMs: number;
}

export interface ReflectorOptions<T extends KubeObject> extends WatchScope {
  readonly rest: Rest;
  readonly store: WritableStore<T>;
  /** Told each difference once, after the store has it. */
  readonly onChange: (key: string, change: Change<T>) => void;
  /** Default: drops metadata.managedFields. May change the object it is given. */
  readonly transform?: (object: T) => T;
  /** Told when the cluster went back in time: etcd was restored from a snapshot. */
  readonly onRollback?: (from: string, to: string) => void;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export type ReflectorState =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'listing'; readonly since: Date }
  | { readonly kind: 'watching'; readonly since: Date }
  | {
      readonly kind: 'backing-off';
      readonly until: Date;
      /** In a row. */
      readonly failures: number;
      readonly message: string;
    };

/** Keeps a store equal to what the API server has of one resource. */
export interface Reflector {
  /** Until `signal` aborts; survives everything else. Resolves when it has stopped. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** Whether the store has held a complete list. */
  readonly hasSynced: () => boolean;
  /** @throws the reason of `signal` on abort */
  readonly whenSynced: (signal: AbortSignal) => Promise<void>;
  readonly state: () => ReflectorState;
  /**
   * Lists anew, whatever is under way, and tells each object even if it looks unchanged: for when etcd went back in time, where a
   * watch stays silent and one resourceVersion may stand for two states. The store keeps what it has until the list is complete.
   */
  readonly relist: () => void;
  /** When the API server was last heard: a list, an event or a bookmark. */
  readonly lastActivity: () => Date | undefined;
}

const TIMING: ReflectorTiming = {
  // As client-go: long enough to be cheap, short enough that API servers share the load anew after a restart.
  minSeconds: 300,
  maxSeconds: 600,
  marginMs: 30_000,
  // Two bookmarks may be late; a third is not coming.
  silenceMs: 150_000,
  stableMs: 10_000,
  // With its jitter 0.8 s to 1.6 s at first, as client-go.
  backoff: { baseMs: 1_600, maxMs: 30_000 },
  unreachableMaxMs: 10_000,
};

/** A page of 500 large objects takes a busy API server longer than a single object. */
const LIST_TIMEOUT_MS = 60_000;

/** A transform may take half a millisecond: after so many objects requests that wait are served. */
const BREATH = 50;

/** Where the reflector stands between two attempts. */
interface Progress {
  /** Everything up to here is in the store; undefined: list again. */
  position: string | undefined;
  /** The last position, kept over lists: a list that is older shows a rollback. */
  lastSeen: string | undefined;
  failures: number;
  /** Since a watch last stood for some time. */
  lostTrack: number;
  /** Objects with the resourceVersion that is known are news all the same. */
  everything: boolean;
  /** Lists under heavy compaction may never see their second page; then one request has to do. */
  paged: boolean;
}

export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector {
  const { rest, store, onChange, clock = systemClock, random = Math.random } = options;
  const { transform = dropManagedFields, onRollback = () => undefined } = options;
  const { resource, namespace, labelSelector, fieldSelector, metadataOnly } = options;
  const scope: WatchScope = { resource, namespace, labelSelector, fieldSelector, metadataOnly };
  const timing = { ...TIMING, ...options.timing };
  const log = options.log;
  const fields = { resource: groupResourceName(resource), namespace };
  const client = createClient(rest);
  const sink = createChangeSink({ store, transform, onChange, log });
  const synced = Promise.withResolvers<undefined>();

  let state: ReflectorState = { kind: 'stopped' };
  let hasSynced = false;
  let lastActivity: Date | undefined;
  const heard = (): void => {
    lastActivity = new Date(clock.now());
  };
  const enter = (kind: 'listing' | 'watching'): void => {
    state = { kind, since: new Date(clock.now()) };
  };

  const list = async (progress: Progress, signal: AbortSignal): Promise<string> => {
    enter('listing');
    const items: T[] = [];
    let version: string | undefined;
    const paging = progress.paged ? {} : { limit: undefined };
    for await (const page of client.pages<T>(resource, {
      ...scope,
      ...paging,
      signal,
      timeoutMs: LIST_TIMEOUT_MS,
    })) {
      signal.throwIfAborted();
      heard();
      // Page by page: what a transform drops is not held until the list is complete, and others get their turn in between.
      for (const item of page.items) {
        items.push(sink.prepare(item));
        if (items.length % BREATH === 0) await setImmediate();
      }
      version = page.metadata.resourceVersion;
    }
    if (version === undefined || version === '')
      throw new Error('the list has no resourceVersion to watch from');
    const wentBack = progress.lastSeen !== undefined && isOlder(version, progress.lastSeen);
    if (wentBack) reportRollback(progress.lastSeen ?? '', version);
    sink.replaceAll(items, wentBack || progress.everything);
    progress.everything = false;
    progress.lastSeen = version;
    progress.paged = true;
    if (!hasSynced) log.debug({ ...fields, objects: items.length }, 'synced');
    hasSynced = true;
    synced.resolve(undefined);
    return version;
  };

  const reportRollback = (from: string, to: string): void => {
    log.warn({ ...fields, from, to }, 'the cluster went back in time: etcd was restored from a snapshot');
    try {
      onRollback(from, to);
    } catch (error) {
      log.error({ ...fields, err: error }, 'a consumer of rollbacks failed');
    }
  };

  /**
   * A watch from a resourceVersion that is still to come is silent and looks healthy, so before going on after a
   * disconnect one small quorum read makes sure that the cluster has not gone back in time.
   */
  const stillThere = async (position: string, signal: AbortSignal): Promise<boolean> => {
    const probe = await client.list(resource, { ...scope, metadataOnly: true, limit: 1, signal });
    heard();
    return !isOlder(probe.metadata.resourceVersion ?? '', position);
  };

  const watch = async (progress: Progress, position: string, signal: AbortSignal) => {
    enter('watching');
    return watchOnce(
      {
        rest,
        scope,
        sink,
        timing,
        clock,
        random,
        onLine: heard,
        onProgress: (version) => {
          progress.position = version;
          progress.lastSeen = version;
        },
      },
      position,
      signal,
    );
  };

  const attempt = async (progress: Progress, signal: AbortSignal): Promise<'go-on' | Error> => {
    if (progress.position !== undefined && !(await stillThere(progress.position, signal))) {
      progress.position = undefined;
    }
    progress.position ??= await list(progress, signal);
    signal.throwIfAborted();
    const started = clock.monotonic();
    const settle = (): void => {
      if (clock.monotonic() - started < timing.stableMs) return;
      progress.failures = 0;
      progress.lostTrack = 0;
    };
    const end = await watch(progress, progress.position, signal).finally(settle);
    switch (end.kind) {
      case 'closed':
        // A server that opens watches only to close them must not be asked in a tight loop.
        return end.lines > 0 || clock.monotonic() - started >= 1_000
          ? 'go-on'
          : new Error('the watch was closed at once');
      case 'lost-track':
        progress.position = undefined;
        log.debug({ ...fields, message: end.message }, 'listing again');
        // The first time that is how watches end, above all after a restart; from then on it is how a server misbehaves.
        progress.lostTrack += 1;
        return progress.lostTrack > 1 ? new Error(end.message) : 'go-on';
    }
  };

  const backOff = async (progress: Progress, error: unknown, signal: AbortSignal): Promise<void> => {
    const failures = ++progress.failures;
    const asked = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
    const { baseMs, maxMs } = timing.backoff;
    const longest = error instanceof NetworkError ? Math.min(maxMs, timing.unreachableMaxMs) : maxMs;
    const ms = Math.max(asked, backoffMs(failures, { baseMs, maxMs: longest }, random));
    const message = error instanceof Error ? error.message : String(error);
    if (isGone(error)) progress.paged = false;
    state = { kind: 'backing-off', until: new Date(clock.now() + ms), failures, message };
    log.warn({ ...fields, err: error, failures, retryInMs: Math.round(ms) }, 'could not list or watch');
    await sleep(clock, ms, signal);
  };

  /** One attempt, and the wait after one that failed. Ends early when the turn is over. */
  const takeTurn = async (progress: Progress, signal: AbortSignal): Promise<void> => {
    try {
      const outcome = await attempt(progress, signal);
      if (outcome !== 'go-on') await backOff(progress, outcome, signal);
    } catch (error) {
      if (!signal.aborted) await backOff(progress, error, signal).catch(() => undefined);
    }
  };

  let endTurn: () => void = () => undefined;
  const run = async (signal: AbortSignal): Promise<void> => {
    const progress: Progress = {
      position: undefined,
      lastSeen: undefined,
      failures: 0,
      lostTrack: 0,
      everything: false,
      paged: true,
    };
    while (!signal.aborted) {
      const turn = linkedController(signal);
      endTurn = () => {
        turn.abort(new Error('asked to list again'));
      };
      await takeTurn(progress, turn.signal);
      turn.release();
      if (!turn.signal.aborted) continue;
      progress.position = undefined;
      progress.everything = true;
    }
  };

  return {
    run: async (signal) => {
      if (state.kind !== 'stopped') throw new Error(`the reflector of ${fields.resource} runs already`);
      enter('listing');
      try {
        await run(signal);
      } finally {
        state = { kind: 'stopped' };
      }
    },
    hasSynced: () => hasSynced,
    whenSynced: async (signal) => {
      await orAborted(synced.promise, signal);
    },
    state: () => state,
    relist: () => {
      endTurn();
    },
    lastActivity: () => lastActivity,
  };
}
