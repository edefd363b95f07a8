/** A workqueue and the workers that empty it. */
import { runController } from '../kube/controller.ts';
import { createWorkqueue } from '../kube/workqueue.ts';
import type { Reconcile } from './reconcile.ts';
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
