/** On the leader: the RestoreWindow by which Gatehouse itself has everything swept, after a rollback or a long absence. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { ownSweepWindow } from '../../restore/rollback.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, type Reconcile, startController } from '../controller.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import type { OwnLease } from '../leadership/own-lease.ts';
import { RESTORE_WINDOWS } from '../resources.ts';

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

/** Leader: asks for the sweeps that the Lease says are due. */
export function startOwnSweeps(
  context: Context & { readonly client: KubeClient },
  { sweepDue, onSweepDue, sweepAsked }: OwnLease,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, serverClock, log } = context;
  const controller = startController(
    context,
    {
      name: 'own-sweeps',
      reconcile: createOwnSweepsReconciler({
        create: async (window, waiting) => {
          try {
            await client.create(RESTORE_WINDOWS, window, { signal: waiting });
            return true;
          } catch (error) {
            if (isAlreadyExists(error)) return false;
            throw error;
          }
        },
        done: sweepAsked,
        now: serverClock.now,
        log,
      }),
    },
    signal,
  );
  onSweepDue(controller.add, signal);
  const due = sweepDue();
  if (due !== undefined) controller.add(due);
  return controller;
}
