/**
 * On the leader: the UniqueClaims are what the stored objects make them. Admission claims a value before its object is stored, and
 * never hears what became of it; so claims outlive their holders, and objects that are older than a policy have none.
 *
 * Nothing here lets a write in. A claim is taken away only when its holder, read live, does not have the value, and no write that
 * was let in for it can still be stored.
 */
import {
  busyMs,
  claimedAtMs,
  holderRef,
  isHeldBy,
  newClaim,
  passedOn,
} from '../../admission/policy/unique/claim-state.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isGovernedNow } from '../../admission/policy/match/object-scope.ts';
import { isJsonObject } from '../../json/json.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { heldKeys, type HeldKey } from '../../admission/policy/unique/unique-key.ts';
import type { Claims, World } from '../../admission/policy/world.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { governed } from '../policies/policies.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';

export interface UniqueClaimsDeps {
  /** Those in force. */
  readonly policies: () => readonly CompiledPolicy[];
  /** Live: whether there is such a policy and it has, or had when it was last enforced, such a rule. */
  readonly hasRule: (policy: string, rule: string, signal: AbortSignal) => Promise<boolean>;
  readonly claims: Claims;
  /** All of them, page by page. */
  readonly pages: (signal: AbortSignal) => AsyncIterable<readonly UniqueClaim[]>;
  /** From the stores: who seems to hold the key of a claim. */
  readonly holders: (claim: string) => readonly ObjectRef[];
  /** From the stores: every governed object with the claims that it should have. */
  readonly objects: () => Iterable<{ readonly claims: readonly string[] }>;
  /** Whether the stores know all of what is governed. */
  readonly isComplete: () => boolean;
  readonly world: Pick<World, 'read'>;
  /** Whether an object of this uid is known to have been stored, although it may have gone since. */
  readonly wasStored: (uid: string) => boolean;
  readonly enqueue: (claim: string) => void;
  /** Waits until one more write may be sent. */
  readonly pace: (signal: AbortSignal) => Promise<void>;
  /** Told of each claim whose key several objects hold, or do so no longer (fewer than two). */
  readonly onHolders: (claim: string, holders: readonly Holder[]) => void;
  /** By the clock of the API server. */
  readonly now: () => Date;
  /** 0 to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** An object that certainly holds a key. */
export interface Holder {
  readonly ref: ObjectRef;
  readonly object: KubeObject;
  readonly policy: CompiledPolicy;
  readonly key: HeldKey;
}

/** The key of the queue that stands for all claims; no claim has such a name. */
export const ALL_CLAIMS = '*';

/** How often all claims are compared with all objects, in milliseconds; up to a tenth is added. */
const EVERY_MS = 60 * 60_000;
const UNLISTED_MS = 1_000;
/** So many objects that share a value are looked at; nobody needs to hear of more. */
const MOST_HOLDERS = 16;

/** Reconciles one claim by its name, or with {@link ALL_CLAIMS} finds those that need it. */
export function createUniqueClaimsReconciler(deps: UniqueClaimsDeps): Reconcile {
  return (name, signal) => (name === ALL_CLAIMS ? compareAll(deps, signal) : mend(name, deps, signal));
}

async function compareAll(deps: UniqueClaimsDeps, signal: AbortSignal): Promise<ReconcileResult> {
  if (!deps.isComplete()) return requeueIn(UNLISTED_MS, deps.now());
  const rules = new Set(
    deps.policies().flatMap(({ name, unique }) => unique.map((rule) => `${name}/${rule.name}`)),
  );
  const present = new Set<string>();
  let wrong = 0;
  const look = (name: string) => {
    wrong += 1;
    deps.enqueue(name);
  };
  for await (const page of deps.pages(signal)) {
    for (const claim of page) {
      const { name = '' } = claim.metadata;
      present.add(name);
      const known = deps.holders(name);
      const [only] = known;
      const isRight = known.length === 1 && only !== undefined && isHeldBy(claim, only);
      if (!isRight || !rules.has(`${claim.spec.policy}/${claim.spec.rule}`)) look(name);
    }
  }
  for (const { claims } of deps.objects()) {
    for (const name of claims) if (!present.has(name)) look(name);
  }
  deps.log.debug({ claims: present.size, wrong }, 'compared unique claims with what is stored');
  return requeueIn(EVERY_MS * (1 + 0.1 * deps.random()), deps.now());
}

async function mend(name: string, deps: UniqueClaimsDeps, signal: AbortSignal): Promise<ReconcileResult> {
  const claim = await deps.claims.read(name, signal);
  if (claim === undefined) {
    const holders = await holdersNow(name, deps.holders(name), deps, signal);
    deps.onHolders(name, holders);
    const [first] = holders;
    if (first === undefined) return GONE;
    await make(first, deps, signal);
    return AWAIT_CHANGE;
  }
  const named = await namedHolder(claim, deps, signal);
  const others = await holdersNow(
    name,
    deps.holders(name).filter((ref) => !isHeldBy(claim, ref)),
    deps,
    signal,
  );
  deps.onHolders(name, named.holder === undefined ? others : [named.holder, ...others]);
  if (named.holder !== undefined) return AWAIT_CHANGE;
  const waitMs = named.policy === undefined ? await orphanedFor(claim, deps, signal) : named.busyMs;
  if (waitMs === undefined) return AWAIT_CHANGE;
  if (waitMs > 0) return requeueIn(waitMs, deps.now());
  await release(claim, others[0], deps, signal);
  return AWAIT_CHANGE;
}

/**
 * Whether the object that has the claim holds its key; if not, for how long it may still come to, in milliseconds. Both from one
 * read: between two, a write that was under way would be over and not have been seen.
 */
async function namedHolder(
  claim: UniqueClaim,
  { policies, world, claims, now, wasStored }: UniqueClaimsDeps,
  signal: AbortSignal,
): Promise<{
  readonly policy: CompiledPolicy | undefined;
  readonly holder: Holder | undefined;
  readonly busyMs: number;
}> {
  const policy = policies().find(
    ({ name, unique }) => name === claim.spec.policy && unique.some((rule) => rule.name === claim.spec.rule),
  );
  if (policy === undefined) return { policy, holder: undefined, busyMs: 0 };
  const ref = holderRef(claim);
  const live = await world.read(ref, signal, policy.match.apiVersions);
  const holder = await asHolder(claim.metadata.name ?? '', policy, ref, live, world, signal);
  return { policy, holder, busyMs: busyMs(claim, live, now().getTime(), claims.settleMs, wasStored) };
}

/** The same for a claim by a rule that is not in force; undefined: the rule is there and will be again. */
async function orphanedFor(
  claim: UniqueClaim,
  { hasRule, claims, now }: UniqueClaimsDeps,
  signal: AbortSignal,
): Promise<number | undefined> {
  if (await hasRule(claim.spec.policy, claim.spec.rule, signal)) return undefined;
  // It may come back within the time of a write that was let in.
  return Math.max(0, claimedAtMs(claim) + claims.settleMs - now().getTime());
}

/** Those of the suspects who certainly hold the key, the oldest first. */
async function holdersNow(
  name: string,
  suspects: readonly ObjectRef[],
  deps: UniqueClaimsDeps,
  signal: AbortSignal,
): Promise<readonly Holder[]> {
  const found: Holder[] = [];
  for (const ref of suspects.slice(0, MOST_HOLDERS)) {
    const holder = await holderNow(name, ref, deps, signal);
    if (holder !== undefined) found.push(holder);
  }
  return found.sort((a, b) => (ageOf(a) < ageOf(b) ? -1 : 1));
}

async function holderNow(
  name: string,
  ref: ObjectRef,
  { policies, world }: UniqueClaimsDeps,
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
  world: Pick<World, 'read'>,
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
  { claims, pace, now, log }: UniqueClaimsDeps,
  signal: AbortSignal,
): Promise<void> {
  await pace(signal);
  const made = await claims.create(newClaim(policy.name, key, ref, undefined, now().getTime()), signal);
  // Somebody was faster, who is judged in the next round.
  if (made === 'taken') throw new Error(`the claim ${key.claim} has been made meanwhile`);
  log.info({ claim: key.claim, holder: targetKey(ref) }, 'made a unique claim for a stored object');
}

/** The claim goes to the next object that holds the key, or away. */
async function release(
  claim: UniqueClaim,
  next: Holder | undefined,
  { claims, pace, now, log }: UniqueClaimsDeps,
  signal: AbortSignal,
): Promise<void> {
  const { name = '' } = claim.metadata;
  await pace(signal);
  const outcome =
    next === undefined
      ? await claims.remove(claim, signal)
      : await claims.replace(passedOn(claim, next.ref, undefined, now().getTime()), signal);
  if (outcome === 'changed') throw new Error(`the claim ${name} has changed meanwhile`);
  const before = targetKey(holderRef(claim));
  if (next === undefined)
    log.info({ claim: name, holder: before }, 'deleted a unique claim that nobody holds');
  else log.info({ claim: name, from: before, to: targetKey(next.ref) }, 'passed a unique claim on');
}
