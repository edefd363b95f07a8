/** On every replica: settles the claims that this process has written, and cleans up those whose objects are not stored. */
import { setTimeout as sleep } from 'node:timers/promises';

import { isHeldWrite, isIntent } from '../../admission/policy/references/intents.ts';
import type { World } from '../../admission/policy/world.ts';
import { createClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, GONE, inLocalTime, startController } from '../controller.ts';
import type { Governed } from '../policies/governed.ts';
import { refOf } from '../../json/kube-object.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { Targets } from '../policies/targets.ts';
import { createWorld } from '../policies/world.ts';
import { createClaims } from './claims.ts';
import type { HeldIntents } from './held-intents.ts';
import { finishIntent, isOver } from './intents.ts';
import { createRecent } from './recent.ts';
import { createUniqueClaimsReconciler, type UniqueClaimsOptions } from './unique-claims.ts';
import type { UnsettledClaims } from './unsettled-claims.ts';

export interface ClaimSources {
  readonly registry: Pick<PolicyRegistry, 'inForce'>;
  readonly governed: Governed;
  readonly targets: Targets;
  readonly world: World;
}

/** Interval of the search for claims whose settle time is over, in milliseconds. */
const SEARCH_MS = 1_000;
const WORKERS = 4;
/** Limit for remembered objects with intents. The intent of a forgotten object stays until the settle time is over. */
const MOST_STORED = 10_000;

/** The claims for 100,000 objects take about a quarter of an hour, at little load for the API server. */
const WRITES_PER_SECOND = 100;

export function startUnsettledClaims(
  context: Context,
  sources: ClaimSources,
  unsettled: UnsettledClaims,
  held: HeldIntents,
  signal: AbortSignal,
): void {
  const { config, metrics, rest, serverClock } = context;
  const stored = createRecent(MOST_STORED, config.uniqueSettleMs);
  const options = repairOptions({ ...context, client: createClient(rest) }, sources);
  const repair = createUniqueClaimsReconciler({
    ...options,
    // The leader knows more: these claims only wait for longer.
    wasStored: () => false,
    enqueue: () => undefined,
    onHolders: () => undefined,
  });
  const controller = startController(
    context,
    {
      name: 'unsettled-claims',
      concurrency: WORKERS,
      reconcile: inLocalTime(async (claim, reconciling) => {
        const entry = unsettled.get(claim);
        if (entry === undefined) return GONE;
        if (isHeldWrite(claim)) {
          const write = held.writeOf(claim);
          if (write === undefined) return AWAIT_CHANGE; // not admitted yet
          const known = { ...sources.world, ...options.claims, wasStored: stored.has };
          if (await isOver(write, known, serverClock.now().getTime(), reconciling)) {
            held.finish(claim);
            unsettled.cleaned(claim, entry);
          }
          return AWAIT_CHANGE;
        }
        if (isIntent(claim)) {
          await options.pace(reconciling);
          const at = serverClock.now().getTime();
          const isGone = await finishIntent(
            claim,
            options.claims,
            sources.world,
            at,
            reconciling,
            stored.has,
          );
          if (isGone) unsettled.cleaned(claim, entry);
          return AWAIT_CHANGE; // the object changes, or the settle time is over
        }
        const result = await repair(claim, reconciling);
        if (result.kind !== 'requeue') unsettled.cleaned(claim, entry);
        return result;
      }, serverClock.now),
    },
    signal,
  );
  sources.governed.onChange((kind, { kind: change, object }) => {
    const ref = refOf(kind, object);
    if (change !== 'deleted') unsettled.settle(ref, object.claims ?? []);
    const intents = unsettled.intentsOf(ref);
    // The object may be gone when its intent is examined.
    if (intents.length > 0) stored.add(object.metadata?.uid ?? '');
    for (const intent of intents) controller.add(intent);
  }, signal);
  sources.targets.onChange(({ group, resource }, key) => {
    const [name = '', namespace] = key.split('/').reverse();
    for (const intent of unsettled.intentsOf({ group, resource, namespace, name })) controller.add(intent);
  }, signal);
  const search = setInterval(() => {
    for (const claim of unsettled.takeDue()) controller.add(claim);
  }, SEARCH_MS);
  signal.addEventListener('abort', () => clearInterval(search));
  metrics.scrape({ unsettledClaims: unsettled.count }, signal);
}

/** The options that the leader and the other replicas share. */
export function repairOptions(
  { client, config, discovery, exact, serverClock, log }: Context,
  { registry, governed, targets, world }: ClaimSources,
): Omit<UniqueClaimsOptions, 'wasStored' | 'enqueue' | 'onHolders'> {
  return {
    policies: registry.inForce,
    client,
    claims: createClaims(client, config.uniqueSettleMs),
    governed,
    // Uses the connections of controllers, so that admission reviews keep theirs.
    world: createWorld(client, createClient(exact.rest), discovery, targets, world),
    pace: createPace(WRITES_PER_SECOND),
    now: serverClock.now,
    random: Math.random,
    log,
  };
}

/** Limits the rate of calls to `perSecond`. */
function createPace(perSecond: number): (signal: AbortSignal) => Promise<void> {
  let free = 0;
  return async (signal) => {
    const now = performance.now();
    const turn = Math.max(now, free);
    free = turn + 1_000 / perSecond;
    if (turn > now) await sleep(turn - now, undefined, { signal });
  };
}
