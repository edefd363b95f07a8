/** Starts the UniqueClaim controller on the leader, and reports values that several objects hold. */
import { shownValues } from '../../admission/policy/unique/check-unique.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summaryKey } from '../../admission/policy/governed-summary.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import { type RecordEvent, regarding, startController, inLocalTime } from '../controller.ts';
import { ALL_CLAIMS, createUniqueClaimsReconciler, type Holder } from './unique-claims.ts';
import type { KubeClient } from '../../kube/client.ts';
import { BACKGROUND_CONNECTIONS } from '../../kube/connection.ts';
import type { Context } from '../context.ts';
import { createRecent } from './recent.ts';
import { repairOptions, type ClaimSources } from './start-unsettled-claims.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';

/**
 * Claims that are repaired at the same time. A repair takes three requests, and a busy API server takes half a second
 * per request. The controller must still release claims as fast as users delete objects.
 */
const WORKERS = BACKGROUND_CONNECTIONS;
/** Timeout for comparing all claims. Reading 100,000 takes some seconds, and each page may be delayed. */
const COMPARE_MS = 10 * 60_000;
/** Limit for remembered deletions. The claim of a forgotten object becomes free a minute later. */
const MOST_GONE = 10_000;
/** Limit for remembered values with several holders. Most clusters have no such value. */
const MOST_SHARED = 1_000;

interface UniqueClaimSources extends ClaimSources, Pick<RestoreKinds, 'windows'> {
  readonly registry: PolicyRegistry;
}

export function startUniqueClaims(
  context: Context & { readonly client: KubeClient },
  sources: UniqueClaimSources,
  record: RecordEvent,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { config, serverClock, metrics } = context;
  const { registry, governed, windows } = sources;
  // After `uniqueSettleMs` a claim is free in any case, so older deletions are not needed.
  const gone = createRecent(MOST_GONE, config.uniqueSettleMs);
  const shared = createShared(record);
  const reconcile = createUniqueClaimsReconciler({
    ...repairOptions(context, sources),
    wasStored: gone.has,
    enqueue: (claim) => controller.add(claim),
    onHolders: shared.note,
  });
  const controller = startController(
    context,
    {
      name: 'unique-claims',
      concurrency: WORKERS,
      timeoutMs: COMPARE_MS,
      reconcile: inLocalTime(reconcile, serverClock.now),
    },
    signal,
  );

  const compareAll = () => controller.add(ALL_CLAIMS);
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
