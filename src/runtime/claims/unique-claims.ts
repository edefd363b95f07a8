/** On the leader: makes the UniqueClaims match the stored objects. Only a live read releases a claim. */
import {
  busyMs,
  claimedAtMs,
  holderRef,
  isHeldBy,
  newClaim,
  passedOn,
} from '../../admission/policy/unique/claim-state.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { canGovern, isGovernedNow } from '../../admission/policy/match/object-scope.ts';
import { isDeletionRecord } from '../../admission/policy/references/deletion-record.ts';
import { isJsonObject } from '../../json/json.ts';
import {
  groupResourceName,
  isDnsSubdomain,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import { type HeldKey, heldKeys } from '../../admission/policy/unique/unique-key.ts';
import type { ClaimStore, ObjectReads } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Governed } from '../policies/governed.ts';
import { governed } from '../policies/policy-kinds.ts';
import { ADMISSION_POLICIES, UNIQUE_CLAIMS } from '../resources.ts';
import type { Log } from '../../log.ts';
import {
  AWAIT_CHANGE,
  GONE,
  type LeaderContext,
  type Reconcile,
  type ReconcileResult,
  type RecordEvent,
  regarding,
  requeueIn,
  startController,
} from '../controller.ts';
import { shownValues } from '../../admission/policy/unique/check-unique.ts';
import { summaryKey } from '../../admission/policy/governed-summary.ts';
import { BACKGROUND_CONNECTIONS } from '../../kube/connection.ts';
import { createRecent } from './recent.ts';
import { type ClaimSources, repairOptions } from './claims.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';

export interface UniqueClaimsOptions {
  readonly policies: () => readonly CompiledPolicy[];
  readonly client: Pick<KubeClient, 'get' | 'pages'>;
  readonly claims: ClaimStore;
  readonly governed: Pick<Governed, 'holdersOf' | 'objects' | 'unsynced' | 'unlisted'>;
  readonly world: Pick<ObjectReads, 'read'>;
  /** Whether an object with this uid was stored, as far as this replica knows. It may be deleted by now. */
  readonly wasStored: (uid: string) => boolean;
  readonly enqueue: (claim: string) => void;
  readonly pace: (signal: AbortSignal) => Promise<void>;
  readonly onHolders: (claim: string, holders: readonly Holder[]) => void;
  readonly now: () => Date;
  readonly random: () => number;
  readonly log: Log;
}

interface Holder {
  readonly ref: ObjectRef;
  readonly object: KubeObject;
  readonly policy: CompiledPolicy;
  readonly key: HeldKey;
}

export const ALL_CLAIMS = '*';

/** Interval between comparisons of all claims with all objects, in milliseconds. Up to a tenth is added. */
const EVERY_MS = 60 * 60_000;
const LISTING_MS = 1_000;
const MOST_HOLDERS = 16;

export function createUniqueClaimsReconciler(options: UniqueClaimsOptions): Reconcile {
  return (name, signal) =>
    name === ALL_CLAIMS ? compareAll(options, signal) : repair(name, options, signal);
}

async function compareAll(options: UniqueClaimsOptions, signal: AbortSignal): Promise<ReconcileResult> {
  const unlisted = options.governed.unlisted();
  if (unlisted === undefined || options.governed.unsynced().length > 0)
    return requeueIn(LISTING_MS, options.now());
  const policies = options.policies();
  const rules = new Set(policies.flatMap(({ name, unique }) => unique.map((rule) => `${name}/${rule.name}`)));
  // A claim of a kind that cannot be read stays, unless it is forged.
  const isHeldUnseen = ({ spec }: UniqueClaim, holder: ObjectRef): boolean =>
    unlisted.has(groupResourceName(holder)) &&
    policies.some((policy) => policy.name === spec.policy && canGovern(policy, holder));
  const present = new Set<string>();
  let wrong = 0;
  const enqueue = (name: string) => {
    wrong += 1;
    options.enqueue(name);
  };
  for await (const page of options.client.pages<UniqueClaim>(UNIQUE_CLAIMS, { signal })) {
    for (const claim of page.items) {
      const { name = '' } = claim.metadata;
      if (isDeletionRecord(name)) continue; // another controller finishes them
      present.add(name);
      const known = options.governed.holdersOf(name);
      const [only] = known;
      const isRight =
        (known.length === 1 && only !== undefined && isHeldBy(claim, only)) ||
        isHeldUnseen(claim, holderRef(claim));
      if (!isRight || !rules.has(`${claim.spec.policy}/${claim.spec.rule}`)) enqueue(name);
    }
  }
  for (const { object } of options.governed.objects()) {
    for (const name of object.claims ?? []) if (!present.has(name)) enqueue(name);
  }
  const seen = { claims: present.size, wrong, unlisted: [...unlisted] };
  options.log.debug(seen, 'compared unique claims with existing objects');
  return requeueIn(EVERY_MS * (1 + 0.1 * options.random()), options.now());
}

async function repair(
  name: string,
  options: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const claim = await options.claims.read(name, signal);
  if (claim === undefined) {
    const holders = await holdersNow(name, options.governed.holdersOf(name), options, signal);
    options.onHolders(name, holders);
    const [first] = holders;
    if (first === undefined) return GONE;
    await make(first, options, signal);
    return AWAIT_CHANGE;
  }
  const named = await namedHolder(claim, options, signal);
  const suspects = options.governed.holdersOf(name).filter((ref) => !isHeldBy(claim, ref));
  const others = await holdersNow(name, suspects, options, signal);
  options.onHolders(name, named.holder === undefined ? others : [named.holder, ...others]);
  if (named.holder !== undefined) return AWAIT_CHANGE;
  const waitMs = named.policy === undefined ? await orphanedFor(claim, options, signal) : named.busyMs;
  if (waitMs === undefined) return AWAIT_CHANGE;
  if (waitMs > 0) return requeueIn(waitMs, options.now());
  await release(claim, others[0], options, signal);
  return AWAIT_CHANGE;
}

/** Both answers come from one read: between two reads, a pending write could complete unnoticed. */
async function namedHolder(
  claim: UniqueClaim,
  { policies, world, claims, now, wasStored }: UniqueClaimsOptions,
  signal: AbortSignal,
) {
  const policy = policies().find(
    ({ name, unique }) => name === claim.spec.policy && unique.some((rule) => rule.name === claim.spec.rule),
  );
  if (policy === undefined) return { policy, holder: undefined, busyMs: 0 };
  const ref = holderRef(claim);
  const live = canGovern(policy, ref) ? await world.read(ref, signal, policy.match.apiVersions) : undefined;
  const holder = await asHolder(claim.metadata.name ?? '', policy, ref, live, world, signal);
  return { policy, holder, busyMs: busyMs(claim, live, now().getTime(), claims.settleMs, wasStored) };
}

async function orphanedFor(
  claim: UniqueClaim,
  { client, claims, now }: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (await hasRule(client, claim, signal)) return undefined;
  // The rule may return while an admitted write is pending.
  const time = now().getTime();
  return Math.max(0, claimedAtMs(claim, time) + claims.settleMs - time);
}

async function hasRule(
  client: Pick<KubeClient, 'get'>,
  { spec: { policy: name, rule } }: UniqueClaim,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isDnsSubdomain(name)) return false;
  const policy = await client.get<AdmissionPolicy>(ADMISSION_POLICIES, { name }, { signal });
  return [policy?.spec, policy?.status?.inForce?.spec].some((spec) => {
    // The API server has validated status.inForce against the schema of the policy.
    const { validate } = (spec ?? {}) as Partial<AdmissionPolicy['spec']>;
    return validate?.unique?.some((one) => one.name === rule) ?? false;
  });
}

async function holdersNow(
  name: string,
  suspects: readonly ObjectRef[],
  options: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<readonly Holder[]> {
  const found: Holder[] = [];
  for (const ref of suspects.slice(0, MOST_HOLDERS)) {
    const holder = await holderNow(name, ref, options, signal);
    if (holder !== undefined) found.push(holder);
  }
  return found.sort((a, b) => (ageOf(a) < ageOf(b) ? -1 : 1));
}

async function holderNow(
  name: string,
  ref: ObjectRef,
  { policies, world }: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<Holder | undefined> {
  const governing = policies().filter(
    (policy) =>
      policy.unique.length > 0 &&
      governed(policy).some(({ group, resource }) => group === ref.group && resource === ref.resource),
  );
  for (const policy of governing) {
    const live = await world.read(ref, signal, policy.match.apiVersions);
    const holder = await asHolder(name, policy, ref, live, world, signal);
    if (holder !== undefined) return holder;
  }
  return undefined;
}

async function asHolder(
  name: string,
  policy: CompiledPolicy,
  ref: ObjectRef,
  object: KubeObject | undefined,
  world: Pick<ObjectReads, 'read'>,
  signal: AbortSignal,
): Promise<Holder | undefined> {
  if (!isJsonObject(object)) return undefined;
  const key = heldKeys(policy, object, ref).find(({ claim }) => claim === name);
  if (key === undefined || !(await isGovernedNow(policy, object, world, signal))) return undefined;
  return { ref, object, policy, key };
}

const ageOf = ({ object, ref }: Holder): string =>
  `${object.metadata?.creationTimestamp ?? ''} ${targetKey(ref)}`;

async function make(
  { policy, key, ref }: Holder,
  { claims, pace, now, log }: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<void> {
  await pace(signal);
  const made = await claims.create(newClaim(policy.name, key, ref, undefined, now().getTime()), signal);
  if (made === 'taken') throw new Error(`another replica has created the claim ${key.claim} in the meantime`);
  log.info({ claim: key.claim, holder: targetKey(ref) }, 'created a unique claim for an existing object');
}

async function release(
  claim: UniqueClaim,
  next: Holder | undefined,
  { claims, pace, now, log }: UniqueClaimsOptions,
  signal: AbortSignal,
): Promise<void> {
  const { name = '' } = claim.metadata;
  await pace(signal);
  const outcome =
    next === undefined
      ? await claims.remove(claim, signal)
      : await claims.replace(passedOn(claim, next.ref, undefined, now().getTime()), signal);
  if (outcome === 'changed') throw new Error(`the claim ${name} has changed in the meantime`);
  const before = targetKey(holderRef(claim));
  if (next === undefined) log.info({ claim: name, holder: before }, 'deleted an orphaned unique claim');
  else log.info({ claim: name, from: before, to: targetKey(next.ref) }, 'transferred a unique claim');
}

/** A repair takes three requests of up to half a second. Claims must be released as fast as users delete objects. */
const WORKERS = BACKGROUND_CONNECTIONS;
const COMPARE_MS = 10 * 60_000;
/** Limit for remembered deletions. The claim of a forgotten object becomes free a minute later. */
const MOST_GONE = 10_000;
const MOST_SHARED = 1_000;

export function startUniqueClaims(
  context: LeaderContext,
  sources: ClaimSources & Pick<RestoreKinds, 'windows'>,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { config, serverClock, metrics } = context;
  const { registry, governed, windows } = sources;
  // After `uniqueSettleMs` a claim is free in any case, so older deletions are not needed.
  const gone = createRecent(MOST_GONE, config.uniqueSettleMs);
  const shared = createShared(context.record);
  const reconcile = createUniqueClaimsReconciler({
    ...repairOptions(context, sources),
    wasStored: gone.has,
    enqueue: (claim) => controller.add(claim),
    onHolders: shared.note,
  });
  // A restore may have admitted duplicate values, and the last comparison may have left a kind out.
  const on = [windows.onChange, governed.onListed];
  const limits = { concurrency: WORKERS, timeoutMs: COMPARE_MS };
  const options = { name: 'unique-claims', key: ALL_CLAIMS, on, ...limits, reconcile };
  const controller = startController(context, { ...options, serverNow: serverClock.now }, signal);

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
    if (rules !== compared) controller.add(ALL_CLAIMS);
    compared = rules;
  }, signal);
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
    message: `${key.field}: ${value} is also held by ${describeRef(first.ref)}: change or delete one of them (unique value ${key.rule.name}, policy ${policy.name})`,
  });
}
