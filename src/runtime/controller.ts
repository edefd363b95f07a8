/** A controller: a workqueue, and workers that reconcile its keys one at a time. */
import {
  runController,
  type ControllerOptions,
  type Reconcile,
  type ReconcileResult,
} from '../kube/controller.ts';
import type { EventRecorder, EventSubject } from '../kube/events.ts';
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import { systemClock } from '../kube/clock.ts';
import { createWorkqueue, type WorkqueueOptions } from '../kube/workqueue.ts';
import type { ControllersConfig, SharedConfig } from '../config/config.ts';
import type { Context } from './context.ts';
import type { Watched } from './watch.ts';

export type { Reconcile, ReconcileResult } from '../kube/controller.ts';

/** The next change of this key arrives as an event. */
export const AWAIT_CHANGE: ReconcileResult = { kind: 'await-change' };

/** Also drops the requeue of an earlier reconcile: requeues of deleted objects would accumulate for months. */
export const GONE: ReconcileResult = { kind: 'gone' };

export function requeueIn(ms: number, now: Date): Extract<ReconcileResult, { kind: 'requeue' }> {
  return { kind: 'requeue', at: new Date(now.getTime() + ms) };
}

/** One result for a key with several parts. */
export function soonest(results: readonly ReconcileResult[]): ReconcileResult {
  const due = results.filter((result) => result.kind === 'requeue');
  const [first = GONE] = due.toSorted((a, b) => a.at.getTime() - b.at.getTime());
  return due.length > 0 ? first : (results.find(({ kind }) => kind === 'await-change') ?? GONE);
}

export type RecordEvent = EventRecorder['record'];

export interface RecordingContext<Settings extends SharedConfig = SharedConfig> extends Context<Settings> {
  readonly record: RecordEvent;
}

export type LeaderContext = RecordingContext<ControllersConfig>;

export function regarding({ apiVersion = '', kind = '', metadata = {} }: KubeObject): EventSubject {
  const { namespace, name = '', uid } = metadata;
  return { apiVersion, kind, name, namespace, uid };
}

/** Kubernetes forgets an Event after an hour. */
export const REPEAT_MS = 50 * 60_000;

export type Reminders = ReturnType<typeof createReminders>;

/** When to record an Event about a state: once when it begins, and again before Kubernetes forgets the Event. */
export function createReminders() {
  const recorded = new Map<string, { readonly text: string; readonly at: number }>();
  return {
    isDue: (key: string, text: string, now: Date): boolean => {
      const known = recorded.get(key);
      const age = known?.text === text ? now.getTime() - known.at : Number.POSITIVE_INFINITY;
      if (age >= 0 && age < REPEAT_MS) return false;
      recorded.delete(key);
      recorded.set(key, { text, at: now.getTime() });
      // The oldest first: old entries are useless.
      for (const [old, { at }] of recorded) {
        if (now.getTime() - at < REPEAT_MS) break;
        recorded.delete(old);
      }
      return true;
    },
    size: (): number => recorded.size,
    clear: (key: string): void => {
      recorded.delete(key);
    },
  };
}

/** Requeue times are by the clock of the API server. With a fast local clock, a replica would spin. */
export function inLocalTime(
  reconcile: Reconcile,
  serverNow: () => Date,
  localNow: () => number = Date.now,
): Reconcile {
  return async (key, signal) => {
    const result = await reconcile(key, signal);
    if (result.kind !== 'requeue') return result;
    const waitMs = result.at.getTime() - serverNow().getTime();
    return { ...result, at: new Date(localNow() + waitMs) };
  };
}

const RECONCILE_MS = 60_000;

export type RunningController = ReturnType<typeof startController>;

type OnChange<Args extends readonly unknown[] = []> = (
  listener: (...args: Args) => void,
  signal: AbortSignal,
) => void;

/** `objects`, `key`, `on` and `onKey`: when keys are reconciled, besides explicit calls of `add`. */
interface StartOptions extends Omit<ControllerOptions, 'queue' | 'log'> {
  readonly objects?: Pick<Watched<KubeObject>, 'onChange'> & {
    readonly store: Pick<Watched<KubeObject>['store'], 'list'>;
  };
  readonly key?: string | readonly string[];
  readonly on?: readonly OnChange[];
  readonly onKey?: readonly OnChange<[key: string]>[];
  readonly backoff?: WorkqueueOptions['backoff'];
  /** If requeue times are by the API server's clock: see {@link inLocalTime}. */
  readonly serverNow?: () => Date;
}

export function startController(
  { metrics, tracing, log }: Pick<Context, 'metrics' | 'tracing' | 'log'>,
  {
    timeoutMs = RECONCILE_MS,
    objects,
    key = [],
    on = [],
    onKey = [],
    serverNow,
    backoff,
    ...options
  }: StartOptions,
  signal: AbortSignal,
) {
  const { name, clock = systemClock } = options;
  const reconcile = serverNow === undefined ? options.reconcile : inLocalTime(options.reconcile, serverNow);
  const queue = createWorkqueue({
    metrics: metrics.queue(name),
    clock,
    ...(backoff === undefined ? {} : { backoff }),
  });
  metrics.queueLoad(name, queue.load);
  const stopped = runController(
    {
      ...options,
      queue,
      timeoutMs,
      reconcile: (one, reconciling) => {
        const attributes = { 'gatehouse.controller': name, 'gatehouse.key': one };
        const work = () => reconcile(one, reconciling);
        return tracing === undefined ? work() : tracing.work(`reconcile ${name}`, attributes, work);
      },
      log,
    },
    signal,
  );
  const addAll = () => {
    for (const one of [key].flat()) queue.add(one);
    for (const object of objects?.store.list() ?? []) queue.add(keyOf(object));
  };
  objects?.onChange(queue.add, signal);
  for (const onChange of on) onChange(addAll, signal);
  for (const onChange of onKey) onChange(queue.add, signal);
  addAll();
  return { add: queue.add, load: queue.load, stopped };
}
