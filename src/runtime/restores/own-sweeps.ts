/** On the leader: after a rollback or a long absence, creates a RestoreWindow that starts a full sweep. */
import { ownSweepWindow } from '../../restore/rollback.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Log } from '../../log.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, startController, type Reconcile } from '../controller.ts';
import type { OwnLease } from '../leadership/own-lease.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { createIfAbsent } from './restore-evidence.ts';

/** @param done called when the window exists, or when its name is invalid */
export function createOwnSweepsReconciler(
  client: Pick<KubeClient, 'create' | 'get'>,
  done: (name: string) => void,
  now: () => Date,
  log: Log,
): Reconcile {
  return async (name, signal) => {
    const window = ownSweepWindow(name, now());
    if (window === undefined) log.warn({ name }, 'the Lease requests a sweep with an invalid name');
    else await ensureWindow(client, window, log, signal);
    done(name);
    return AWAIT_CHANGE;
  };
}

/** A window of a user with this name must not replace the sweep: then the window gets another name. */
async function ensureWindow(
  client: Pick<KubeClient, 'create' | 'get'>,
  window: RestoreWindow,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const { name: wanted = '' } = window.metadata;
  for (let attempt = 0; ; attempt += 1) {
    const name = attempt === 0 ? wanted : `${wanted}-${attempt}`;
    const named = { ...window, metadata: { ...window.metadata, name } };
    if (await createIfAbsent(client, named, signal)) {
      log.info({ window: name, reason: window.spec.reason }, 'requested a full sweep');
      return;
    }
    const present = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal });
    if (present?.spec.source?.type === window.spec.source?.type) return;
  }
}

export function startOwnSweeps(
  context: Context,
  { sweepDue, onSweepDue, sweepRequested }: OwnLease,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, serverClock, log } = context;
  if (config.without.includes('restores')) return { stopped: Promise.resolve() };
  const reconcile = createOwnSweepsReconciler(client, sweepRequested, serverClock.now, log);
  const key = sweepDue() ?? [];
  return startController(context, { name: 'own-sweeps', key, onKey: [onSweepDue], reconcile }, signal);
}
