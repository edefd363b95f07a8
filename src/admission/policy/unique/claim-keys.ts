import { obstacleViolation, shownValues, type Obstacle, type WantedKey } from './check-unique.ts';
import type { Violation } from '../violation.ts';
import { deferringWindow, mayDefer, type Deferral, type RestoreLookup } from '../deferral/deferral.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';
import { NO_FINDINGS, type Findings, type Undecided } from '../findings.ts';
import type { AdmissionContext, AuditWorld, Claims } from '../world.ts';
import { objectKey, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import { uniqueBy } from '../../../json/json.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import { admittedRequest, busyMs, holderRef, isHeldBy, newClaim, passedOn, renewed } from './claim-state.ts';
import { canGovern, holdsNow } from '../match/object-scope.ts';

/** Even policies that only warn or audit claim free keys, so that later requests can be compared with them. */
export async function claimKeys(
  keys: readonly WantedKey[],
  request: AdmissionRequest,
  context: AdmissionContext,
  restoring: RestoreLookup,
): Promise<Findings> {
  const { claims } = context.world;
  const acquire = createClaimAcquirer(request, context, claims);
  const { strict = [], lenient = [] } = Object.groupBy(keys, ({ policy }) =>
    policy.enforcement === 'Deny' ? 'strict' : 'lenient',
  );
  const found = await obstacleFindings(await acquire(strict), strict, request, acquire, restoring);
  if (found.violations.length > 0 || found.undecided.length > 0) return found;

  const lenientObstacles = (await Promise.all(lenient.map((key) => acquire([key])))).flat();
  return { ...found, violations: violationsOf(lenientObstacles), unchecked: undecidedOf(lenientObstacles) };
}

async function obstacleFindings(
  obstacles: readonly Obstacle[],
  keys: readonly WantedKey[],
  request: AdmissionRequest,
  acquire: ReturnType<typeof createClaimAcquirer>,
  restoring: RestoreLookup,
): Promise<Findings> {
  if (obstacles.length === 0) return NO_FINDINGS;
  const refused = {
    ...NO_FINDINGS,
    violations: violationsOf(obstacles),
    undecided: undecidedOf(obstacles),
    cause: obstacles.find((obstacle) => obstacle.kind === 'unknown')?.cause,
  };
  if (!obstacles.every(({ key }) => mayDefer(key.policy, 'unique'))) return refused;
  const restore = await restoring();
  if (restore.kind === 'unknown')
    return { ...NO_FINDINGS, undecided: obstacles.map(toUndecided), cause: restore.cause };
  const ofCluster = obstacles.some(({ key }) => key.rule.scope === 'Cluster');
  const window = deferringWindow(restore, request.operation, 'unique', ofCluster);
  if (window === undefined) return refused;
  const deferred = new Set(obstacles.map(({ key }) => key));
  const others = keys.filter((key) => !deferred.has(key));
  const found = await obstacleFindings(await acquire(others), others, request, acquire, restoring);
  return { ...found, deferred: [...obstacles.map(toDeferral), ...found.deferred], window };
}

/** Certain violations come first: the first violation determines the code and reason of the denial. */
function violationsOf(obstacles: readonly Obstacle[]): readonly Violation[] {
  const { certain = [], others = [] } = Object.groupBy(obstacles, ({ kind }) =>
    kind === 'held' ? 'certain' : 'others',
  );
  const violations = [...certain, ...others].flatMap((obstacle) => obstacleViolation(obstacle) ?? []);
  // The message about unsettled claims is the same for all keys of a policy.
  return uniqueBy(violations, ({ policy, field, message }) => `${policy.name} ${field} ${message}`);
}

function undecidedOf(obstacles: readonly Obstacle[]): readonly Undecided[] {
  return obstacles.filter(({ kind }) => kind === 'unknown').map(toUndecided);
}

function toUndecided({ key }: Obstacle): Undecided {
  const message = `could not find out whether ${shownValues(key)} in ${shorten(key.field, 256)} is free`;
  return { policy: key.policy, message, auditRef: auditRefOf(key) };
}

function toDeferral(obstacle: Obstacle): Deferral {
  const { key } = obstacle;
  const why = obstacleViolation(obstacle)?.message ?? `whether ${shownValues(key)} is free is unknown`;
  const message = `${shorten(key.field, 256)}: ${why}`;
  return { message, auditRef: auditRefOf(key), again: { kind: 'restore' } };
}

function auditRefOf({ policy, rule, claim }: WantedKey): string {
  return `${policy.name}/${rule.name}=${claim}`;
}

/** Concurrent calls for one request. */
const AT_ONCE = 16;

const MAY_REMAIN: ReadonlySet<(Taken | Obstacle)['kind']> = new Set(['made', 'kept', 'unknown']);

/** Losing this many races is not chance: give up. */
const MOST_ATTEMPTS = 8;

type State =
  | { readonly kind: 'free' }
  | { readonly kind: 'ours'; readonly claim: UniqueClaim }
  /** The holder does not have the key, and no pending write can give it the key. */
  | { readonly kind: 'abandoned'; readonly claim: UniqueClaim };

type Taken =
  /** The claim was free or abandoned. */
  | { readonly kind: 'made'; readonly key: WantedKey; readonly claim: UniqueClaim }
  /** The claim was ours. `stored`: the object is stored with it, so no watch event will settle it. */
  | { readonly kind: 'kept' | 'stored'; readonly key: WantedKey };

/** Claims all keys or none. The API server decides who wins: it creates a claim once, and replaces only its latest version. */
function createClaimAcquirer(
  request: AdmissionRequest,
  { world, signal, now }: AdmissionContext,
  claims: Claims,
): (keys: readonly WantedKey[]) => Promise<readonly Obstacle[]> {
  const look = async (key: WantedKey): Promise<State | Obstacle> =>
    (await unclaimedHolder(key, world, signal)) ?? (await stateOf(key, await claims.read(key.claim, signal)));

  const stateOf = async (key: WantedKey, claim: UniqueClaim | undefined): Promise<State | Obstacle> => {
    if (claim === undefined) return { kind: 'free' };
    if (isHeldBy(claim, key.self)) return { kind: 'ours', claim };
    const holder = holderRef(claim);
    const { policy } = key;
    const live = canGovern(policy, holder)
      ? await world.read(holder, signal, policy.match.apiVersions)
      : undefined;
    if (await holdsNow(policy, key.claim, holder, live, world, signal)) return held(key, holder, live);
    const waitMs = busyMs(claim, live, now, claims.settleMs);
    return waitMs > 0 ? { kind: 'pending', key, holder, waitMs } : { kind: 'abandoned', claim };
  };

  const admitted = admittedRequest(request, now);
  const take = async (key: WantedKey): Promise<Taken | Obstacle> => {
    const unclaimed = await unclaimedHolder(key, world, signal);
    if (unclaimed !== undefined) return unclaimed;
    for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
      const made = await claims.create(newClaim(key.policy.name, key, key.self, admitted, now), signal);
      if (made !== 'taken') return { kind: 'made', key, claim: made };
      const state = await stateOf(key, await claims.read(key.claim, signal));
      switch (state.kind) {
        case 'free':
          continue;
        case 'ours': {
          const claim = await claims.replace(renewed(state.claim, admitted, now, claims.settleMs), signal);
          if (claim !== 'changed') return { kind: isStored(key, world) ? 'stored' : 'kept', key };
          continue;
        }
        case 'abandoned': {
          const claim = await claims.replace(passedOn(state.claim, key.self, admitted, now), signal);
          if (claim !== 'changed') return { kind: 'made', key, claim };
          continue;
        }
        case 'held':
        case 'pending':
        case 'missing-namespace':
        case 'unsettled':
        case 'unknown':
          return state;
      }
    }
    return { kind: 'unknown', key, cause: new Error(`the claim ${key.claim} changes all the time`) };
  };

  const lookAtAll = async (keys: readonly WantedKey[]): Promise<readonly Obstacle[]> =>
    (await mapConcurrent(keys, AT_ONCE, orUnknown(look))).filter(isObstacle);

  /** Also returns the names of the claims that may remain. */
  const takeAll = async (keys: readonly WantedKey[]) => {
    // A fixed order: of two requests for the same keys, the one that wins the first key gets all of them.
    const ordered = [...keys].sort((a, b) => (a.claim < b.claim ? -1 : 1));
    const taken: (Taken | Obstacle)[] = [];
    while (taken.length < ordered.length && !taken.some(isObstacle)) {
      const batch = ordered.slice(taken.length, taken.length + AT_ONCE);
      taken.push(...(await Promise.all(batch.map(orUnknown(take)))));
    }
    const obstacles = taken.filter(isObstacle);
    const released = new Set<Taken | Obstacle>();
    if (obstacles.some(({ kind }) => kind !== 'unknown')) {
      // Best effort: a claim that is not released expires.
      const release = async (one: Taken | Obstacle): Promise<void> => {
        if (one.kind === 'made' && (await claims.remove(one.claim, signal)) === 'removed') released.add(one);
      };
      await Promise.allSettled(taken.map(release));
    }
    const remaining = taken.filter((one) => !released.has(one) && MAY_REMAIN.has(one.kind));
    return { obstacles, written: remaining.map(({ key }) => key.claim) };
  };

  let isThere: Promise<boolean> | undefined;
  const lookAtNamespace = orUnknown(async (key): Promise<Obstacle | undefined> => {
    const { namespace } = key.self;
    if (namespace === undefined) return undefined;
    isThere ??= claims.hasNamespace(namespace, signal);
    return (await isThere) ? undefined : { kind: 'missing-namespace', key, namespace };
  });

  return async (keys) => {
    const [first] = keys;
    if (request.dryRun || first === undefined) return await lookAtAll(keys);
    const lost = await lookAtNamespace(first);
    if (lost !== undefined) return [lost];
    const { username } = request.userInfo;
    const { refused, written } = claims.reserve(keys, username);
    if (refused.length > 0)
      return refused.map((key) => ({ kind: 'unsettled', key, username, waitMs: claims.settleMs }));
    // Read first: if another object holds one of several keys, claiming the others is useless.
    const seen = keys.length > 1 ? await lookAtAll(keys) : [];
    const outcome = seen.length > 0 ? { obstacles: seen, written: [] } : await takeAll(keys);
    written(outcome.written);
    return outcome.obstacles;
  };
}

function isStored({ policy, claim, self }: WantedKey, { governed }: AuditWorld): boolean {
  return governed.holders(claim, policy)?.some((ref) => objectKey(ref) === objectKey(self)) === true;
}

/** For example because it is older than the policy. Only a live read counts. */
async function unclaimedHolder(
  key: WantedKey,
  world: AuditWorld,
  signal: AbortSignal,
): Promise<Obstacle | undefined> {
  const { policy, claim, self } = key;
  const known = world.governed.holders(claim, policy);
  if (known === undefined) throw new Error('the objects that the policy governs have not been listed yet');
  for (const ref of known) {
    if (objectKey(ref) === objectKey(self)) continue;
    const live = await world.read(ref, signal, policy.match.apiVersions);
    if (await holdsNow(policy, claim, ref, live, world, signal)) return held(key, ref, live);
  }
  return undefined;
}

function held(key: WantedKey, holder: ObjectRef, live: KubeObject | undefined): Obstacle {
  return { kind: 'held', key, holder, beingDeleted: live?.metadata?.deletionTimestamp !== undefined };
}

/** A thrown error counts as `unknown`. */
function orUnknown<T>(run: (key: WantedKey) => Promise<T>): (key: WantedKey) => Promise<T | Obstacle> {
  return async (key) => {
    try {
      return await run(key);
    } catch (cause) {
      return { kind: 'unknown', key, cause };
    }
  };
}

function isObstacle(one: State | Taken | Obstacle): one is Obstacle {
  return one.kind === 'held' || one.kind === 'pending' || one.kind === 'unknown';
}
