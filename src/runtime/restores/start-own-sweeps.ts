/** Leader: asks for the sweeps that the Lease says are due. */
import { createOwnSweepsReconciler } from './own-sweeps.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import type { OwnLease } from '../leadership/lease-notes.ts';
import { RESTORE_WINDOWS } from '../resources.ts';

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
