import { isAlreadyExists, isConflict, isNotFound, isOfOutage } from '../api-error.ts';
import { linkedController, sleep, systemClock, type Clock } from '../clock.ts';
import { createLeaseRecord, type LeaseSettings } from './lease-record.ts';
import type { Log } from '../../log.ts';

export interface ElectionOptions extends LeaseSettings {
  /** How long an unrenewed lease stays valid, in milliseconds; whole seconds. */
  readonly durationMs: number;
  /** How long the leader may act without a renewal, in milliseconds. Less than `durationMs`. */
  readonly renewDeadlineMs: number;
  /** Interval between renewals, in milliseconds. Candidates read the Lease twice as often. */
  readonly retryMs: number;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly log: Log;
}

/** It has `durationMs` to return after the abort of `signal`. If it returns before, the election ends. */
type OnStart = (signal: AbortSignal) => Promise<void>;

export type Election = ReturnType<typeof createElection>;

export class LeadershipLostError extends Error {
  override readonly name = 'LeadershipLostError';
}

type Tried = 'held' | { readonly waitMs: number };

const AGAIN_MS = 100;
const RELEASE = { timeoutMs: 5_000 };

/** Two clocks: the monotonic clock stops while a virtual machine is suspended, and the wall clock can be set. */
interface Instant {
  readonly wall: number;
  readonly monotonic: number;
}

export function createElection(options: ElectionOptions) {
  const { clock = systemClock, random = Math.random, log, identity } = options;
  const { durationMs, renewDeadlineMs, retryMs } = options;
  if (!(retryMs < renewDeadlineMs && renewDeadlineMs < durationMs))
    throw new Error('leader election needs retryMs < renewDeadlineMs < durationMs');
  const fields = { lease: `${options.namespace}/${options.name}`, identity };
  const record = createLeaseRecord(options, durationMs, clock);

  /** When the request that last renewed our lease was sent; undefined while another replica leads. */
  let renewedAt: Instant | undefined;
  let failure: unknown;
  const instant = (): Instant => ({ wall: clock.now(), monotonic: clock.monotonic() });
  const leftMs = (): number => {
    if (renewedAt === undefined) return 0;
    const passed = Math.max(clock.monotonic() - renewedAt.monotonic, clock.now() - renewedAt.wall);
    return Math.max(0, renewDeadlineMs - passed);
  };
  const isLeader = (): boolean => leftMs() > 0;

  const tryOnce = async (signal: AbortSignal): Promise<Tried> => {
    const leading = isLeader();
    // Half the deadline, so that a hanging request leaves time for a retry.
    const timeoutMs = Math.min(renewDeadlineMs / 2, leading ? Math.max(1, leftMs()) : Infinity);
    // While leading, reuse what was written last to send one request instead of two.
    const observed = (leading ? record.last() : undefined) ?? (await record.read({ signal, timeoutMs }));
    const judged = record.judge(observed, leading);
    if (judged.kind === 'taken') {
      if (leading) renewedAt = undefined;
      // A leader that stops releases the Lease, so candidates check often.
      return { waitMs: Math.min(judged.expiresInMs, retryMs / 2) };
    }
    const holder = observed.lease?.spec?.holderIdentity ?? '';
    if (leading && holder !== identity)
      log.warn({ ...fields, holder }, 'another lease replaced the lease of this leader: taking it back');
    const sentAt = instant();
    await record.write(observed, { signal, timeoutMs });
    renewedAt = sentAt;
    return 'held';
  };

  const tryQuietly = async (signal: AbortSignal): Promise<Tried> => {
    try {
      const tried = await tryOnce(signal);
      failure = undefined;
      return tried;
    } catch (error) {
      signal.throwIfAborted(); // the abort caused the failure
      failure = error;
      if (isConflict(error) || isAlreadyExists(error) || isNotFound(error)) {
        record.forget();
        log.debug({ ...fields, err: error }, 'another replica wrote the lease');
        // A leader whose lease was overwritten retries immediately: followers may be about to trust the copy.
        return { waitMs: isLeader() ? AGAIN_MS : retryMs };
      }
      log.warn({ ...fields, err: error }, 'could not reach the lease');
      return { waitMs: retryMs };
    }
  };

  const pause = (waitMs: number, signal: AbortSignal): Promise<void> =>
    // Do not wait longer than the Lease is valid: then a takeover after a crash takes at most duration + retry / 2.
    sleep(clock, Math.max(1, Math.min(waitMs, retryMs * (0.8 + random() * 0.2))), signal);

  const acquire = async (signal: AbortSignal): Promise<void> => {
    for (let tried = await tryQuietly(signal); tried !== 'held'; tried = await tryQuietly(signal))
      await pause(tried.waitMs, signal);
  };

  const keep = async (signal: AbortSignal): Promise<void> => {
    let tried: Tried = 'held';
    while (isLeader()) {
      await pause(tried === 'held' ? retryMs : tried.waitMs, signal);
      if (!isLeader()) return;
      tried = await tryQuietly(signal);
    }
  };

  const lead = async (onStart: OnStart, parent: AbortSignal): Promise<'lost' | 'finished'> => {
    log.info(fields, 'leading');
    const term = linkedController(parent);
    const lose = (): void => {
      term.abort(new LeadershipLostError('the lease was not renewed in time: another replica may lead'));
    };
    const watchdog = watchTime(clock, leftMs, lose);
    const work = onStart(term.signal);
    const keeper = linkedController(term.signal);
    const kept = keep(keeper.signal).then(lose, () => undefined);
    try {
      await settledWithin(work, term.signal, durationMs, clock);
      return term.signal.aborted ? 'lost' : 'finished';
    } finally {
      watchdog();
      keeper.abort(new Error('the term is over'));
      await kept;
      keeper.release();
      term.release();
    }
  };

  const release = async (): Promise<void> => {
    const held = isLeader();
    renewedAt = undefined;
    if (!held) return;
    try {
      await record.release(RELEASE).catch((error: unknown) => {
        if (!isConflict(error)) throw error;
        record.forget(); // the API server stored the last renewal, but the abort came before its answer
        return record.release(RELEASE);
      });
      log.info(fields, 'released the lease');
    } catch (error) {
      log.warn(
        { ...fields, err: error },
        'could not release the lease: the next leader waits until it expires',
      );
    }
  };

  return {
    /** Computed from the current time, so it is correct even after the process was suspended. */
    isLeader,
    /** Runs until `signal` aborts. @throws if `onStart` fails, or outlives the abort: then end the process */
    run: async (onStart: OnStart, signal: AbortSignal): Promise<void> => {
      const stopped = (): boolean => signal.aborted;
      try {
        while (!stopped()) {
          await acquire(signal);
          signal.throwIfAborted();
          if ((await lead(onStart, signal)) === 'finished') return;
          if (!stopped()) log[isOfOutage(failure) ? 'info' : 'warn'](fields, 'lost the lease');
        }
      } catch (error) {
        if (!stopped() || error !== signal.reason) throw error;
      } finally {
        await release();
      }
    },
  };
}

/** Checks again when the timer fires, because renewals extend the time. */
function watchTime(clock: Clock, leftMs: () => number, lose: () => void): () => void {
  let cancel: () => void = () => undefined;
  const arm = (): void => {
    cancel = clock.after(leftMs(), () => {
      if (leftMs() > 0) arm();
      else lose();
    });
  };
  arm();
  return () => cancel();
}

/** Waits at most `graceMs` after the abort. @throws what `work` throws before, or when it does not stop in time */
async function settledWithin(
  work: Promise<void>,
  signal: AbortSignal,
  graceMs: number,
  clock: Clock,
): Promise<void> {
  const overdue = Promise.withResolvers<never>();
  let cancel: () => void = () => undefined;
  const onAbort = (): void => {
    cancel = clock.after(graceMs, () => {
      overdue.reject(new Error(`work as leader did not stop within ${graceMs} ms: end the process`));
    });
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  const stopped = work.catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  try {
    await Promise.race([stopped, overdue.promise]);
  } finally {
    cancel();
    signal.removeEventListener('abort', onAbort);
  }
}
