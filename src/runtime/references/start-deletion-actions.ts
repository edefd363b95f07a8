/** Starts the controller that acts after the deletion of targets, on the leader. */
import { DELETION_LABEL } from '../../admission/policy/references/deletion-record.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { keyOf } from '../../json/kube-object.ts';
import { windowState } from '../../restore/window.ts';
import { createClient } from '../../kube/client.ts';
import { createClaims } from '../claims/claims.ts';
import { inLocalTime, startController, type LeaderContext } from '../controller.ts';
import { createWorld, withinReach } from '../policies/world.ts';
import { RESTORE_WINDOWS, UNIQUE_CLAIMS } from '../resources.ts';
import { watch } from '../watch.ts';
import type { Replica } from '../webhook-process.ts';
import { createActionAccessReconciler } from './action-access.ts';
import { createDeletionActionsReconciler } from './deletion-actions.ts';
import { createDeletionProgress } from './deletion-progress.ts';
import { createWriteReferrer } from './write-referrer.ts';

const WORKERS = 4;
/** Timeout of one pass, in milliseconds: it acts on thousands of objects. */
const PASS_MS = 10 * 60_000;

/** @param onMessage called with the name of a policy whose message has changed */
export function startDeletionActions(
  context: LeaderContext,
  replica: Replica,
  onMessage: (policy: string) => void,
  signal: AbortSignal,
) {
  const { client, config, discovery, namespaces, serverClock, record, log } = context;
  const { now } = serverClock;
  const { registry, governed, windows, records, targets } = replica;
  // Not the world of admission: to that, an own Secret does not exist.
  const world = createWorld(client, createClient(context.exact.rest), discovery, targets, replica.world);
  const progress = createDeletionProgress(record, now, log, onMessage);
  const reconcile = createDeletionActionsReconciler({
    ...{ policies: registry.inForce, client, governed, now, log },
    claims: createClaims(client, config.uniqueSettleMs),
    prove: records.prove,
    world: withinReach(world, namespaces),
    restoreInProgress: config.without.includes('restores')
      ? () => Promise.resolve(undefined)
      : async (reading) => {
          const { items } = await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal: reading });
          return items.find((window) => isInProgress(window, now()))?.metadata.name;
        },
    write: createWriteReferrer(client, discovery),
    onProgress: progress.note,
  });
  const controller = startController(
    context,
    {
      name: 'deletion-actions',
      concurrency: WORKERS,
      timeoutMs: PASS_MS,
      reconcile: inLocalTime(async (claim, reconciling) => {
        await records.whenSynced(reconciling);
        return await reconcile(claim, reconciling);
      }, now),
    },
    signal,
  );
  const stored = watch<UniqueClaim>(
    context,
    { resource: UNIQUE_CLAIMS, labelSelector: DELETION_LABEL },
    signal,
  );
  stored.onChange((key) => {
    if (stored.store.get(key) === undefined) progress.forget(key);
    controller.add(key);
  }, signal);
  windows.onChange(() => {
    for (const claim of stored.store.list()) controller.add(keyOf(claim));
  }, signal);
  const missing = new Map<string, string>();
  const onMissing = (policy: string, message: string) => {
    const before = missing.get(policy) ?? '';
    if (message === '') missing.delete(policy);
    else missing.set(policy, message);
    if (message !== before) onMessage(policy);
  };
  const access = startController(
    context,
    {
      name: 'action-access',
      reconcile: createActionAccessReconciler(
        registry.inForce,
        client,
        discovery,
        namespaces,
        onMissing,
        () => new Date(),
      ),
    },
    signal,
  );
  registry.subscribe(access.add, signal);
  for (const { name } of registry.inForce()) access.add(name);
  return {
    stopped: Promise.all([controller.stopped, access.stopped]),
    progress: progress.message,
    missing: (policy: string) => missing.get(policy) ?? '',
  };
}

/** Until the sweep is over, admitted writes may still be stored. */
function isInProgress(window: RestoreWindow, now: Date): boolean {
  const { phase } = window.status ?? {};
  if (phase === 'Refused') return false;
  if (windowState(window, now).kind === 'open') return true;
  return phase === undefined || phase === 'Open' || phase === 'Settling';
}
