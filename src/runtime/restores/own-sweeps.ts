/** On the leader: the RestoreWindow by which Gatehouse itself has everything swept, after a rollback or a long absence. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { ownSweepWindow } from '../../restore/own-sweep.ts';
import { AWAIT_CHANGE, type Log, type Reconcile } from '../reconcile.ts';

export interface OwnSweepsDeps {
  /** Whether it was made by this call; false: it is there already. */
  readonly create: (window: RestoreWindow, signal: AbortSignal) => Promise<boolean>;
  /** The window is there, or will never be. */
  readonly done: (name: string) => void;
  readonly now: () => Date;
  readonly log: Log;
}

/** Its keys are the names of windows. */
export function createOwnSweepsReconciler({ create, done, now, log }: OwnSweepsDeps): Reconcile {
  return async (name, signal) => {
    const window = ownSweepWindow(name, now());
    if (window === undefined) log.warn({ name }, 'the lease asks for a sweep of a name that means nothing');
    else if (await create(window, signal))
      log.info({ window: name, reason: window.spec.reason }, 'asked for a sweep of everything');
    done(name);
    return AWAIT_CHANGE;
  };
}
