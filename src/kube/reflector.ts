import { setImmediate } from 'node:timers/promises';

import { ApiError, isGone, isNotFound, NetworkError } from './api-error.ts';
import { orAborted } from '../json/abort.ts';
import { backoffMs, type BackoffOptions, type Clock, linkedController, sleep, systemClock } from './clock.ts';
import {
  type Change,
  createChangeSink,
  dropManagedFields,
  isOlder,
  LostTrackError,
  resourceVersionOf,
  watchOnce,
  type WatchScope,
  type WatchTiming,
} from './watch.ts';
import { createClient } from './client.ts';
import type { Log } from '../log.ts';
import { groupResourceName, type KubeObject } from '../json/kube-object.ts';
import type { Rest } from './rest.ts';
import type { WritableStore } from './store.ts';
import { withKind } from './object.ts';

export type { Change } from './watch.ts';

export interface ReflectorTiming extends WatchTiming {
  /** A watch that lasted this long resets the backoff. */
  readonly stableMs: number;
  readonly backoff: BackoffOptions;
  /** The longest backoff without a response. A retry costs the API server nothing, and the store becomes stale. */
  readonly unreachableMaxMs: number;
}

export interface ReflectorOptions<T extends KubeObject> extends WatchScope {
  readonly rest: Rest;
  readonly store: WritableStore<T>;
  readonly onChange: (key: string, change: Change<T>) => void;
  /** Default: drops metadata.managedFields. May change the object it is given. */
  readonly transform?: (object: T) => T;
  readonly onFailure?: () => void;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly clock?: Clock;
  readonly random?: () => number;
}

const TIMING: ReflectorTiming = {
  // Like client-go: long enough to be cheap, short enough to rebalance API servers after a restart.
  minSeconds: 300,
  maxSeconds: 600,
  marginMs: 30_000,
  // Two bookmarks may be late. If a third is missing, the watch is dead.
  silenceMs: 150_000,
  stableMs: 10_000,
  // With jitter, the first backoff is 0.8 s to 1.6 s, like client-go's.
  backoff: { baseMs: 1_600, maxMs: 30_000 },
  unreachableMaxMs: 10_000,
};

/** A busy API server needs longer for a page of 500 large objects than for a single object. */
const LIST_TIMEOUT_MS = 60_000;

/** After this many objects, yield to waiting requests: one transform may take half a millisecond. */
const YIELD_EVERY = 50;

interface Progress {
  /** The store is complete up to this resourceVersion; undefined: list again. */
  position: string | undefined;
  /** The last position, kept across lists: an older list reveals a rollback. */
  lastSeen: string | undefined;
  failures: number;
  lostTrack: number;
  everything: boolean;
  /** Under heavy compaction, a list may expire before its second page. */
  paged: boolean;
}

export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>) {
  const { rest, store, onChange, transform = dropManagedFields, log } = options;
  const { clock = systemClock, random = Math.random } = options;
  const { resource, namespace, labelSelector, fieldSelector, metadataOnly } = options;
  const scope: WatchScope = { resource, namespace, labelSelector, fieldSelector, metadataOnly };
  const isOneObject = fieldSelector?.startsWith('metadata.name=') === true;
  const timing = { ...TIMING, ...options.timing };
  const fields = { resource: groupResourceName(resource), namespace };
  const client = createClient(rest);
  const sink = createChangeSink(store, transform, onChange, log);
  const synced = Promise.withResolvers<undefined>();

  let hasSynced = false;
  let failure: { readonly error: unknown; readonly of: 'list' | 'watch' } | undefined;
  const setFailure = (next: typeof failure): void => {
    if (failure === next) return;
    failure = next;
    options.onFailure?.();
  };

  const list = async (progress: Progress, signal: AbortSignal): Promise<string> => {
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
      // Transform page by page: dropped fields are freed before the list is complete, and other work runs in between.
      for (const item of page.items) {
        items.push(sink.prepare(item));
        if (items.length % YIELD_EVERY === 0) await setImmediate();
      }
      version = page.metadata.resourceVersion;
    }
    if (version === undefined || version === '')
      throw new Error('the list lacks a resourceVersion: the watch cannot start');
    const wentBack = progress.lastSeen !== undefined && isOlder(version, progress.lastSeen);
    const { lastSeen: from } = progress;
    if (wentBack)
      log.warn(
        { ...fields, from, to: version },
        'the cluster went back in time: etcd was restored from a snapshot',
      );
    sink.replaceAll(items, wentBack || progress.everything);
    progress.everything = false;
    progress.lastSeen = version;
    progress.paged = true;
    if (!hasSynced) log.debug({ ...fields, objects: items.length }, 'synced');
    hasSynced = true;
    // A success of the list says nothing about the permission to watch.
    if (failure?.of === 'list') setFailure(undefined);
    synced.resolve(undefined);
    return version;
  };

  /** Before a watch continues after a disconnect: from a future resourceVersion, a watch is silent and looks healthy. */
  const stillThere = async (position: string, signal: AbortSignal): Promise<boolean> => {
    const probe = await client.list(resource, { ...scope, metadataOnly: true, limit: 1, signal });
    return !isOlder(probe.metadata.resourceVersion ?? '', position);
  };

  const watch = async (progress: Progress, since: string, signal: AbortSignal): Promise<number> => {
    let events = 0;
    for await (const { kind, object } of watchOnce(rest, scope, since, timing, clock, random, signal)) {
      events += 1;
      setFailure(undefined);
      // The caller of the reflector names the type that the API server serves for this resource.
      const typed = withKind(resource, object) as T;
      if (kind === 'set') sink.set(typed);
      if (kind === 'deleted') sink.remove(typed);
      const version = resourceVersionOf(object);
      if (version === '') continue;
      progress.position = version;
      progress.lastSeen = version;
    }
    return events;
  };

  const attempt = async (progress: Progress, signal: AbortSignal): Promise<'go-on' | Error> => {
    // Listing one object costs as much as the probe, and shows what a watch from a lost position would miss.
    if (progress.position !== undefined && (isOneObject || !(await stillThere(progress.position, signal))))
      progress.position = undefined;
    progress.position ??= await list(progress, signal);
    signal.throwIfAborted();
    const started = clock.monotonic();
    const settle = (): void => {
      if (clock.monotonic() - started < timing.stableMs) return;
      progress.failures = 0;
      progress.lostTrack = 0;
    };
    try {
      const events = await watch(progress, progress.position, signal).finally(settle);
      // A server that closes each new watch immediately must not cause a busy loop.
      return events > 0 || clock.monotonic() - started >= 1_000
        ? 'go-on'
        : new Error('the watch was closed immediately');
    } catch (error) {
      if (!(error instanceof LostTrackError)) throw error;
      progress.position = undefined;
      log.debug({ ...fields, message: error.message }, 'listing again');
      // The first time is normal, especially after a restart. A repetition is an error of the server: back off.
      progress.lostTrack += 1;
      return progress.lostTrack > 1 ? error : 'go-on';
    }
  };

  const backOff = async (progress: Progress, error: unknown, signal: AbortSignal): Promise<void> => {
    const failures = ++progress.failures;
    // After an outage, the first lost track is normal again.
    if (!(error instanceof LostTrackError)) progress.lostTrack = 0;
    setFailure({ error, of: progress.position === undefined ? 'list' : 'watch' });
    const requestedMs = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
    const { baseMs, maxMs } = timing.backoff;
    const longest = error instanceof NetworkError ? Math.min(maxMs, timing.unreachableMaxMs) : maxMs;
    const ms = Math.max(requestedMs, backoffMs(failures, { baseMs, maxMs: longest }, random));
    if (isGone(error)) progress.paged = false;
    // Some API servers do not serve the kind, e.g. without an aggregation layer.
    const level = isNotFound(error) && failures > 1 ? 'debug' : 'warn';
    log[level]({ ...fields, err: error, failures, retryInMs: Math.round(ms) }, 'could not list or watch');
    await sleep(clock, ms, signal);
  };

  const attemptOnce = async (progress: Progress, signal: AbortSignal): Promise<void> => {
    try {
      const outcome = await attempt(progress, signal);
      if (outcome !== 'go-on') await backOff(progress, outcome, signal);
    } catch (error) {
      if (!signal.aborted) await backOff(progress, error, signal).catch(() => undefined);
    }
  };

  let endAttempt: () => void = () => undefined;
  /** Runs until `signal` aborts. Retries after every error. */
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
      const current = linkedController(signal);
      endAttempt = () => current.abort(new Error('relist requested'));
      await attemptOnce(progress, current.signal);
      current.release();
      if (!current.signal.aborted) continue;
      progress.position = undefined;
      progress.everything = true;
    }
  };

  return {
    run,
    hasSynced: (): boolean => hasSynced,
    /** The error of the latest attempt; undefined if it succeeded or is the first. */
    failure: (): unknown => failure?.error,
    whenSynced: async (signal: AbortSignal): Promise<void> => {
      await orAborted(synced.promise, signal);
    },
    /** Lists again, and reports each object even if it looks unchanged: needed after a rollback of etcd. */
    relist: (): void => endAttempt(),
  };
}
