import { setImmediate } from 'node:timers/promises';
import { isConflict } from './api-error.ts';
import { linkedController, systemClock, type Clock } from './clock.ts';
import { NotLeaderError } from './lease/fence.ts';
import type { Log } from '../log.ts';
import type { Workqueue } from './workqueue.ts';

export type ReconcileResult =
  | { readonly kind: 'await-change' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'requeue'; readonly at: Date };

export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult>;

export interface ControllerOptions {
  readonly name: string;
  readonly queue: Workqueue;
  readonly concurrency?: number;
  readonly reconcile: Reconcile;
  readonly log: Pick<Log, 'debug' | 'warn' | 'error'>;
  /** How long one reconcile may take, in milliseconds. Default: 2 min. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
}

const TIMEOUT_MS = 120_000;
/** A reconcile that ignores its signal loses its worker after this time. Its key remains in flight until it ends. */
const GRACE_MS = 5_000;
/** A change of the authority adds thousands of keys, most of them without I/O: yield to other work after this many. */
const YIELD_EVERY = 50;
/** A `requeue` in the past must not become a busy loop. */
const MIN_REQUEUE_MS = 1_000;

export async function runController(options: ControllerOptions, signal: AbortSignal): Promise<void> {
  const { queue, concurrency = 1, clock = systemClock } = options;
  const stopped = Promise.withResolvers<undefined>();
  const stop = (): void => {
    const giveUp = clock.after(GRACE_MS, () => stopped.resolve(undefined));
    void queue.shutdown().then(() => {
      giveUp();
      stopped.resolve(undefined);
    });
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });

  let done = 0;
  let pause: Promise<void> | undefined;
  const worker = async (): Promise<void> => {
    for (let key = await queue.next(); key !== undefined; key = await queue.next()) {
      await work(options, key, signal);
      done += 1;
      if (done % YIELD_EVERY === 0) pause = setImmediate();
      await pause; // all workers, otherwise the others would go on
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  await stopped.promise;
}

/** Ends early when the grace period of a reconcile that ignores its signal is over. */
async function work(options: ControllerOptions, key: string, parent: AbortSignal): Promise<void> {
  const { name, queue, log, timeoutMs = TIMEOUT_MS, clock = systemClock } = options;
  const { signal, abort, release } = linkedController(parent);
  const over = Promise.withResolvers<undefined>();
  const cancelDeadline = clock.after(timeoutMs, () => {
    abort(new Error(`the reconcile took longer than ${timeoutMs} ms`));
  });
  let cancelGrace: () => void = () => undefined;
  signal.addEventListener('abort', () => {
    cancelGrace = clock.after(GRACE_MS, () => {
      log.error({ controller: name, key }, 'a reconcile ignores its abort signal');
      over.resolve(undefined);
    });
  });

  const settled = reconcileOnce(options, key, signal, parent).finally(() => {
    cancelDeadline();
    cancelGrace();
    release();
    queue.done(key);
  });
  await Promise.race([settled, over.promise]);
}

async function reconcileOnce(
  { name, queue, reconcile, log, clock = systemClock }: ControllerOptions,
  key: string,
  signal: AbortSignal,
  parent: AbortSignal,
): Promise<void> {
  try {
    const result = await reconcile(key, signal);
    // An aborted reconcile may return early: do not count it as a success.
    signal.throwIfAborted();
    switch (result.kind) {
      case 'await-change':
        queue.forget(key);
        return;
      case 'gone':
        queue.drop(key);
        return;
      case 'requeue':
        queue.forget(key);
        queue.addAfter(key, Math.max(MIN_REQUEUE_MS, result.at.getTime() - clock.now()));
        return;
    }
  } catch (error) {
    const fields = { controller: name, key, err: error };
    if (parent.aborted) {
      log.debug(fields, 'reconcile stopped');
    } else {
      const retryInMs = Math.round(queue.retry(key));
      // Another writer was faster, or another replica leads now: expected, and the retry resolves it.
      const level = isConflict(error) || error instanceof NotLeaderError ? 'debug' : 'warn';
      log[level]({ ...fields, retryInMs }, 'reconcile failed');
    }
  }
}
