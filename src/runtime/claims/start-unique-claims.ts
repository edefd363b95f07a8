/** Leader: UniqueClaims are mended, and values that several objects hold are told. */
import { setTimeout as sleep } from 'node:timers/promises';

import { shownValues } from '../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summaryKey } from '../../admission/policy/governed-summary.ts';

import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { type RecordEvent, startController, inLocalTime } from '../controller.ts';
import { ALL_CLAIMS, createUniqueClaimsReconciler, type Holder } from './unique-claims.ts';
import { createClient } from '../../kube/rest-client.ts';
import type { KubeClient } from '../../kube/client.ts';
import { BACKGROUND_CONNECTIONS } from '../../kube/connection.ts';
import { createClaims } from './claims.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { ADMISSION_POLICIES, UNIQUE_CLAIMS } from '../resources.ts';
import { createWorld } from '../policies/world.ts';

/**
 * Claims that are mended at a time: each takes three requests, of which the API server may have an answer in milliseconds, or in half a
 * second when it is busy; claims are freed all the same as fast as objects are deleted.
 */
const WORKERS = BACKGROUND_CONNECTIONS;
/** A policy over 100,000 objects has its claims within a quarter of an hour, and the API server hardly notices. */
const WRITES_PER_SECOND = 100;
/** Comparing all claims reads them: 100,000 take some seconds, of which each page may wait. */
const COMPARE_MS = 10 * 60_000;
/** Deleted objects that are remembered at most. The claim of one that is forgotten is free a minute later. */
const MOST_GONE = 10_000;
/** Values with several holders that are remembered; there should be none. */
const MOST_SHARED = 1_000;

export function startUniqueClaims(
  context: Context & { readonly client: KubeClient },
  { registry, governed, targets, world, onWindowChange }: ReplicaParts,
  record: RecordEvent,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, discovery, exact, serverClock, log, metrics } = context;
  // A claim that is older than that is free whatever became of its holder.
  const gone = createRecent(MOST_GONE, config.uniqueSettleMs);
  const shared = createShared(record);
  const now = () => serverClock.now();
  const reconcile = createUniqueClaimsReconciler({
    policies: registry.inForce,
    hasRule: async (policy, rule, waiting) => {
      const live = await client.get<AdmissionPolicy>(
        ADMISSION_POLICIES,
        { name: policy },
        { signal: waiting },
      );
      return namesRule(live?.spec, rule) || namesRule(live?.status?.inForce?.spec, rule);
    },
    claims: createClaims(client, config.uniqueSettleMs),
    pages: async function* (waiting) {
      for await (const page of client.pages<UniqueClaim>(UNIQUE_CLAIMS, { signal: waiting }))
        yield page.items;
    },
    holders: governed.holdersOf,
    objects: function* () {
      for (const { object } of governed.objects()) yield { claims: object.claims ?? [] };
    },
    isComplete: governed.isComplete,
    // Over the connections of controllers: those of reviews are for reviews.
    world: createWorld({ ...world, client, exact: createClient(exact.rest), discovery, targets }),
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
  onWindowChange(compareAll, signal); // a restore may have let values in that others hold
  compareAll();
  metrics.sharedValues(shared.counts);
  signal.addEventListener('abort', () => {
    metrics.sharedValues(undefined);
  });
  return { stopped: controller.stopped };
}

const rulesOf = (policies: readonly CompiledPolicy[]): string =>
  policies
    .filter(({ unique }) => unique.length > 0)
    .map(summaryKey)
    .sort()
    .join();

function namesRule(spec: unknown, rule: string): boolean {
  // What is stored as inForce has passed the schema of a policy before.
  const { validate } = (spec ?? {}) as Partial<AdmissionPolicy['spec']>;
  return validate?.unique?.some(({ name }) => name === rule) ?? false;
}

/** The last ones of those that were added, for so many milliseconds at least. */
function createRecent(
  most: number,
  keepMs: number,
): {
  readonly add: (one: string) => void;
  readonly has: (one: string) => boolean;
} {
  /** With the time they came; the oldest first. */
  const recent = new Map<string, number>();
  return {
    add: (one) => {
      const now = performance.now();
      recent.delete(one);
      recent.set(one, now);
      for (const [oldest, at] of recent) {
        if (recent.size <= most && now - at <= keepMs) break;
        recent.delete(oldest);
      }
    },
    has: (one) => recent.has(one),
  };
}

/** Values that several objects hold; each time that others do, they get an Event. */
function createShared(record: RecordEvent): {
  readonly note: (claim: string, holders: readonly Holder[]) => void;
  /** By policy. */
  readonly counts: () => ReadonlyMap<string, number>;
} {
  const shared = new Map<string, { readonly policy: string; readonly holders: string }>();
  return {
    note: (claim, holders) => {
      const [first, ...others] = holders;
      if (first === undefined || others.length === 0) {
        shared.delete(claim);
        return;
      }
      const names = holders.map(({ ref }) => targetKey(ref)).join(' ');
      if (shared.get(claim)?.holders === names) return;
      if (shared.has(claim) || shared.size < MOST_SHARED)
        shared.set(claim, { policy: first.policy.name, holders: names });
      for (const holder of others) tell(record, holder, first);
    },
    counts: () => {
      const counts = new Map<string, number>();
      for (const { policy } of shared.values()) counts.set(policy, (counts.get(policy) ?? 0) + 1);
      return counts;
    },
  };
}

function tell(record: RecordEvent, { ref, object, policy, key }: Holder, first: Holder): void {
  const { uid, namespace } = object.metadata ?? {};
  const value = shownValues({ self: ref, values: key.values });
  record({
    regarding: {
      apiVersion: object.apiVersion ?? '',
      kind: object.kind ?? '',
      name: ref.name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
    },
    type: 'Warning',
    reason: 'ValueNotUnique',
    message: `${key.field}: ${value} is held by ${describeRef(first.ref)} too: change or delete one of them (unique value ${key.rule.name}, policy ${policy.name})`,
  });
}

/** Lets so many pass a second, one after the other. */
function createPace(perSecond: number): (signal: AbortSignal) => Promise<void> {
  let free = 0;
  return async (signal) => {
    const now = performance.now();
    const turn = Math.max(now, free);
    free = turn + 1_000 / perSecond;
    if (turn > now) await sleep(turn - now, undefined, { signal });
  };
}
