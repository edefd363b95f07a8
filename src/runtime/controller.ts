/** A workqueue and the workers that empty it. */
import type { Log } from '../log.ts';
import { runController } from '../kube/controller.ts';
import { createWorkqueue } from '../kube/workqueue.ts';
import type { Context } from './context.ts';
import { traced } from './tracing.ts';

export interface ControllerOptions {
  readonly name: string;
  readonly reconcile: Reconcile;
  /** How many keys are worked on at a time. */
  readonly concurrency?: number;
  /** How long one reconcile may take, in milliseconds. */
  readonly timeoutMs?: number;
}

export interface RunningController {
  readonly add: (key: string) => void;
  /** Resolves when the last reconcile has ended after the signal aborted. */
  readonly stopped: Promise<void>;
}

const RECONCILE_MS = 60_000;

export function startController(
  { metrics, tracing, log }: Pick<Context, 'metrics' | 'tracing' | 'log'>,
  { name, reconcile, concurrency = 1, timeoutMs = RECONCILE_MS }: ControllerOptions,
  signal: AbortSignal,
): RunningController {
  const queue = createWorkqueue({ metrics: metrics.queue(name) });
  metrics.queueLoad(name, queue.load);
  const stopped = runController(
    {
      ...{ name, queue, concurrency, timeoutMs },
      reconcile: (key, reconciling) =>
        traced(tracing, `reconcile ${name}`, { 'gatehouse.controller': name, 'gatehouse.key': key }, () =>
          reconcile(key, reconciling),
        ),
      log: log.child({ controller: name }),
    },
    signal,
  );
  return { add: queue.add, stopped };
}

/** What every controller has in common. A reconcile handles a key, reads the world, and ends in one of three ways. */

/** A thrown error is the third way: the key comes back after a back-off. */
export type ReconcileResult =
  { readonly kind: 'await-change' | 'gone' } | { readonly kind: 'requeue'; readonly at: Date };

export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult>;

/** Whatever changes this key next comes as an event. */
export const AWAIT_CHANGE: ReconcileResult = { kind: 'await-change' };

/**
 * There is no such object, or it asks for nothing. Also what an earlier reconcile wanted to be done later is over: the dates of objects that come and go
 * would pile up until then, which may be in months.
 */
export const GONE: ReconcileResult = { kind: 'gone' };

export function requeueIn(ms: number, now: Date): ReconcileResult {
  return { kind: 'requeue', at: new Date(now.getTime() + ms) };
}

/** Tells the people who look at an object what was done about it. Never throws. */
export type RecordEvent = (event: {
  readonly regarding: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly namespace?: string;
    readonly name: string;
    readonly uid?: string;
  };
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}) => void;

/**
 * A reconcile whose times are the API server's, so that replicas agree on them, for a queue that waits by our own clock. Without
 * it a replica whose clock is behind would come back late, and one whose clock is ahead at once, again and again.
 */
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
