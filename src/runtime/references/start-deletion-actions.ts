/** Starts the controller that acts after the deletion of targets, on the leader. */
import { DELETION_LABEL } from '../../admission/policy/references/deletion-record.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { windowState } from '../../restore/window.ts';
import { createClient } from '../../kube/client.ts';
import { createClaims, type ClaimSources } from '../claims/claims.ts';
import {
  startController,
  createReminders,
  regarding,
  type LeaderContext,
  type RecordEvent,
} from '../controller.ts';
import { createWorld, withinReach } from '../policies/world.ts';
import { RESTORE_WINDOWS, UNIQUE_CLAIMS, ADMISSION_POLICIES } from '../resources.ts';
import { watch } from '../watch.ts';
import { createActionAccessReconciler } from './action-access.ts';
import { createDeletionActionsReconciler } from './deletion-actions.ts';
import { createWriteReferrer, type Progress } from './deletion-task.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import { counted } from '../../json/counted.ts';
import type { Log } from '../../log.ts';
import type { OwnState } from '../own-state/own-state.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';

const WORKERS = 4;

/** Timeout of one pass, in milliseconds: it acts on thousands of objects. */
const PASS_MS = 10 * 60_000;

interface DeletionSources extends ClaimSources, Pick<RestoreKinds, 'windows'>, Pick<OwnState, 'records'> {}

/**
 * What the leader reports about deletions of targets: Events, and one message for each policy.
 * @param onMessage called with the name of a policy whose message has changed
 */
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
      reconcile: async (claim, reconciling) => {
        await records.whenSynced(reconciling);
        return await reconcile(claim, reconciling);
      },
      serverNow: now,
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
      key: registry.inForce().map(({ name }) => name),
      onKey: [registry.subscribe],
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

/** Limit for Events about objects of one deletion: the message of the policy says the rest. */
const MOST_EVENTS = 5;

const DONE = {
  Cascade: 'deleted',
  SetNull: 'removed the name from',
  SetDefault: 'wrote another name into',
} as const;

/** @param onMessage called with the name of a policy whose message has changed */
function createDeletionProgress(
  record: RecordEvent,
  now: () => Date,
  log: Log,
  onMessage: (policy: string) => void,
) {
  /** What is not over, by the name of the record. `done`: in all passes. */
  const open = new Map<string, Progress>();
  const reminders = createReminders();
  const aboutPolicy = (policy: string): KubeObject => ({
    apiVersion: `${ADMISSION_POLICIES.group}/${ADMISSION_POLICIES.version}`,
    kind: ADMISSION_POLICIES.kind,
    metadata: { name: policy },
  });

  /** Empty if no deletion of the policy is stuck or waits for something. */
  const message = (policy: string): string => {
    const held = [...open.values()].filter((one) => one.record.policy === policy && one.message !== '');
    const [first] = held;
    if (first === undefined) return '';
    const more = held.length > 1 ? ` (and ${counted(held.length - 1, 'more deletion')})` : '';
    return `${describeRef(first.record.target)} was deleted, and objects still name it: ${first.message}${more}`;
  };

  return {
    message,
    note: (progress: Progress): void => {
      const { claim, record: order, state, stuck } = progress;
      const before = message(order.policy);
      const total = (open.get(claim)?.done ?? 0) + progress.done;
      if (state === 'finished' || state === 'abandoned') {
        if (total > 0) {
          const text = `${DONE[order.action]} ${counted(total, 'object')} after the deletion of ${describeRef(order.target)} (reference ${order.reference})`;
          const about = regarding(aboutPolicy(order.policy));
          record({ regarding: about, type: 'Normal', reason: 'ReferrersHandled', message: text });
          log.info({ policy: order.policy, target: targetKey(order.target), objects: total }, text);
        }
        open.delete(claim);
        if (state === 'abandoned' && progress.message !== '')
          log.info({ policy: order.policy, target: targetKey(order.target) }, progress.message);
      } else open.set(claim, { ...progress, done: total });
      for (const one of stuck.slice(0, MOST_EVENTS)) {
        if (one.object === undefined) continue;
        const text = `names ${describeRef(order.target)}, which was deleted, and ${order.action} fails: ${one.message} (reference ${order.reference}, policy ${order.policy})`;
        const key = `${claim} ${one.object.metadata?.uid ?? ''}`;
        const event = { type: 'Warning', reason: 'ReferrerKept', message: text } as const;
        if (reminders.isDue(key, text, now())) record({ regarding: regarding(one.object), ...event });
      }
      const after = message(order.policy);
      if (after === before) return;
      if (after !== '') log.warn({ policy: order.policy }, after);
      onMessage(order.policy);
    },
    /** The record is gone. */
    forget: (claim: string): void => {
      const policy = open.get(claim)?.record.policy;
      open.delete(claim);
      if (policy !== undefined) onMessage(policy);
    },
  };
}
