/** Starts the UniqueClaim controller on the leader, and reports values that several objects hold. */
import { setTimeout as sleep } from 'node:timers/promises';

import { shownValues } from '../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summaryKey } from '../../admission/policy/governed-summary.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import { type RecordEvent, regarding, startController, inLocalTime } from '../controller.ts';
import { ALL_CLAIMS, createUniqueClaimsReconciler, type Holder } from './unique-claims.ts';
import { createClient, type KubeClient } from '../../kube/client.ts';
import { BACKGROUND_CONNECTIONS } from '../../kube/connection.ts';
import { createClaims } from './claims.ts';
import type { Context } from '../context.ts';
import type { Replica } from '../webhook-process.ts';
import { createWorld } from '../policies/world.ts';

/**
 * Claims that are repaired at the same time. A repair takes three requests, and a busy API server takes half a second
 * per request. The controller must still release claims as fast as users delete objects.
 */
const WORKERS = BACKGROUND_CONNECTIONS;
/** The claims for 100,000 objects take about a quarter of an hour, at little load for the API server. */
const WRITES_PER_SECOND = 100;
/** Timeout for comparing all claims. Reading 100,000 takes some seconds, and each page may be delayed. */
const COMPARE_MS = 10 * 60_000;
/** Limit for remembered deletions. The claim of a forgotten object becomes free a minute later. */
const MOST_GONE = 10_000;
/** Limit for remembered values with several holders. Most clusters have no such value. */
const MOST_SHARED = 1_000;

export function startUniqueClaims(
  context: Context & { readonly client: KubeClient },
  { registry, governed, targets, world, windows }: Replica,
  record: RecordEvent,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, discovery, exact, serverClock, log, metrics } = context;
  // After `uniqueSettleMs` a claim is free in any case, so older deletions are not needed.
  const gone = createRecent(MOST_GONE, config.uniqueSettleMs);
  const shared = createShared(record);
  const now = () => serverClock.now();
  const reconcile = createUniqueClaimsReconciler({
    policies: registry.inForce,
    client,
    claims: createClaims(client, config.uniqueSettleMs),
    governed,
    // Uses the connections of controllers, so that admission reviews keep theirs.
    world: createWorld(client, createClient(exact.rest), discovery, targets, world),
    wasStored: gone.has,
    enqueue: (claim) => {
      controller.add(claim);
    },
    pace: createPace(WRITES_PER_SECOND),
    onHolders: shared.note,
    now,
    random: Math.random,
    log,
  });
  const controller = startController(
    context,
    {
      name: 'unique-claims',
      concurrency: WORKERS,
      timeoutMs: COMPARE_MS,
      reconcile: inLocalTime(reconcile, now),
    },
    signal,
  );

  const compareAll = () => {
    controller.add(ALL_CLAIMS);
  };
  governed.onChange((_kind, change) => {
    const { claims = [], metadata = {} } = change.object;
    if (change.kind === 'deleted') gone.add(metadata.uid ?? '');
    const before = change.kind === 'changed' ? (change.previous.claims ?? []) : [];
    const wrong =
      change.kind === 'deleted'
        ? claims
        : [
            ...before.filter((claim) => !claims.includes(claim)),
            ...claims.filter((claim) => !before.includes(claim) && governed.holdersOf(claim).length > 1),
          ];
    for (const claim of wrong) controller.add(claim);
  }, signal);
  let compared = rulesOf(registry.inForce());
  registry.subscribe(() => {
    const rules = rulesOf(registry.inForce());
    if (rules !== compared) compareAll();
    compared = rules;
  }, signal);
  windows.onChange(compareAll, signal); // a restore may have admitted duplicate values
  compareAll();
  metrics.scrape({ sharedValues: shared.counts }, signal);
  return { stopped: controller.stopped };
}

const rulesOf = (policies: readonly CompiledPolicy[]): string =>
  policies
    .filter(({ unique }) => unique.length > 0)
    .map(summaryKey)
    .sort()
    .join();

/** Remembers recent keys: at most `most`, each for `keepMs` milliseconds. */
function createRecent(most: number, keepMs: number) {
  /** Keys with the time of their addition, the oldest first. */
  const recent = new Map<string, number>();
  return {
    add: (one: string): void => {
      const now = performance.now();
      recent.delete(one);
      recent.set(one, now);
      for (const [oldest, at] of recent) {
        if (recent.size <= most && now - at <= keepMs) break;
        recent.delete(oldest);
      }
    },
    has: (one: string): boolean => recent.has(one),
  };
}

/** Values that several objects hold. When the holders of a value change, all but the first get an Event. */
function createShared(record: RecordEvent) {
  const shared = new Map<string, { readonly policy: string; readonly holders: string }>();
  return {
    note: (claim: string, holders: readonly Holder[]): void => {
      const [first, ...others] = holders;
      if (first === undefined || others.length === 0) {
        shared.delete(claim);
        return;
      }
      const names = holders.map(({ ref }) => targetKey(ref)).join(' ');
      if (shared.get(claim)?.holders === names) return;
      if (shared.has(claim) || shared.size < MOST_SHARED)
        shared.set(claim, { policy: first.policy.name, holders: names });
      for (const holder of others) reportDuplicate(record, holder, first);
    },
    /** The number of shared values by policy. */
    counts: (): ReadonlyMap<string, number> => {
      const counts = new Map<string, number>();
      for (const { policy } of shared.values()) counts.set(policy, (counts.get(policy) ?? 0) + 1);
      return counts;
    },
  };
}

function reportDuplicate(record: RecordEvent, { ref, object, policy, key }: Holder, first: Holder): void {
  const value = shownValues({ self: ref, values: key.values });
  record({
    regarding: regarding(object),
    type: 'Warning',
    reason: 'ValueNotUnique',
    message: `${key.field}: ${value} is held by ${describeRef(first.ref)} too: change or delete one of them (unique value ${key.rule.name}, policy ${policy.name})`,
  });
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
