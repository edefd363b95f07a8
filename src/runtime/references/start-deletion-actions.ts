/** On the leader: starts the deletion actions, and the review of their permissions. */
import { DELETION_LABEL } from '../../admission/policy/references/deletion-record.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { type Reconcile, startController, type LeaderContext } from '../controller.ts';
import { RESTORE_WINDOWS, UNIQUE_CLAIMS } from '../resources.ts';
import { keyOf } from '../../json/kube-object.ts';
import { createClient } from '../../kube/client.ts';
import { createWorld, withinReach } from '../policies/world.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { spanOf } from '../../restore/attribution.ts';
import { mayRestoreIn, windowState } from '../../restore/window.ts';
import { createClaims, type ClaimSources } from '../claims/claims.ts';
import { watch } from '../watch.ts';
import { createActionAccess } from './action-access.ts';
import type { OwnState } from '../own-state/own-state.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';
import { createDeletionActionsReconciler, createWriteReferrer } from './deletion-actions.ts';
import { createDeletionProgress } from './deletion-progress.ts';

const WORKERS = 4;
/** Timeout of one pass, in milliseconds: it acts on thousands of objects. */
const PASS_MS = 10 * 60_000;

interface DeletionSources extends ClaimSources, Pick<RestoreKinds, 'windows'>, Pick<OwnState, 'records'> {}

export function startDeletionActions(
  context: LeaderContext,
  { registry, governed, windows, records, targets, world: admission }: DeletionSources,
  onMessage: (policy: string) => void,
  signal: AbortSignal,
) {
  const { client, config, discovery, namespaces, serverClock, record, log } = context;
  const { now } = serverClock;
  // Not the world of admission: to that, an own Secret does not exist.
  const world = createWorld(client, createClient(context.exact.rest), discovery, targets, admission);
  const progress = createDeletionProgress(record, now, log, onMessage);
  const reconcile = createDeletionActionsReconciler({
    policies: registry.inForce,
    client,
    governed,
    now,
    log,
    claims: createClaims(client, config.uniqueSettleMs),
    prove: records.prove,
    world: withinReach(world, namespaces),
    restoresInProgress: config.without.includes('restores')
      ? () => Promise.resolve([])
      : async (reading) => {
          const { items } = await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal: reading });
          const unfinished = items.filter((window) => isInProgress(window, now()));
          return unfinished.map((window) => ({
            window: window.metadata.name ?? '',
            since: spanOf(window, 0).from,
            mayWrite: ({ namespace }) => mayRestoreIn(window, namespace),
          }));
        },
    write: createWriteReferrer(client, discovery),
    onProgress: progress.note,
  });
  const afterRecords: Reconcile = async (claim, reconciling) => {
    await records.whenSynced(reconciling);
    return await reconcile(claim, reconciling);
  };
  const limits = { concurrency: WORKERS, timeoutMs: PASS_MS };
  const options = { name: 'deletion-actions', ...limits, reconcile: afterRecords, serverNow: now };
  const controller = startController(context, options, signal);
  const ofDeletions = { resource: UNIQUE_CLAIMS, labelSelector: DELETION_LABEL };
  const stored = watch<UniqueClaim>(context, ofDeletions, signal);
  stored.onChange((key) => {
    if (stored.store.get(key) === undefined) progress.forget(key);
    controller.add(key);
  }, signal);
  windows.onChange(() => {
    for (const claim of stored.store.list()) controller.add(keyOf(claim));
  }, signal);
  const access = createActionAccess(registry.inForce, client, discovery, namespaces, onMessage);
  const key = registry.inForce().map(({ name }) => name);
  const review = { name: 'action-access', key, onKey: [registry.subscribe], reconcile: access.reconcile };
  const reviewing = startController(context, review, signal);
  const stopped = Promise.all([controller.stopped, reviewing.stopped]);
  return { stopped, progress: progress.message, missing: access.missing };
}

/** Until the sweep is over, admitted writes may still be stored. */
function isInProgress(window: RestoreWindow, now: Date): boolean {
  const { phase } = window.status ?? {};
  if (phase === 'Refused') return false;
  if (windowState(window, now).kind === 'open') return true;
  return phase === undefined || phase === 'Open' || phase === 'Settling';
}
