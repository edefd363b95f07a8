import {
  activeGeneration,
  type Authority,
  delayEnd,
  distrustedWith,
  type LaggingTargets,
  MAX_BRIDGES,
  namesOf,
  pendingGeneration,
  waitsForTargets,
} from './authority.ts';
import { after, earliest, HOUR, MINUTE } from '../durations.ts';
import { type Generation, type ImportedAuthority, isExpired, isOwnGeneration, lifeOf } from './generation.ts';
import { canReplaceBy, hasRoomFor, isRenewal, isRenewed, nextRoom, renewalProblem } from './imported-ca.ts';
import { laterTrust, nextPossible, nextRecordTime, retirementTime, unneeded } from './trust-record.ts';

export interface RotationState {
  readonly authority: Authority;
  readonly now: Date;
  readonly times: {
    /** The wait between "every target holds the new root" and its first use: clients may mount or cache the bundle. */
    readonly propagationWaitMs: number;
  };
  /** The targets that lack the root of a generation; undefined: not known. */
  readonly targetsWithout: (generation: string) => LaggingTargets | undefined;
  /** In milliseconds, of a serving cert that a signer may make now; undefined: not known. */
  readonly longestLifeMs: number | undefined;
  readonly rotate: string | undefined;
  readonly distrust: readonly string[];
  /** For users: why no change is allowed now; undefined: changes are allowed. */
  readonly paused: string | undefined;
  /** Why the pending generation must not sign; undefined: it may, or there is none. */
  readonly activationProblem: string | undefined;
  /** Undefined: Gatehouse makes its own. */
  readonly imported: ImportedAuthority | undefined;
}

export type PrepareReason = 'Requested' | 'HalfLife' | 'ImportedCaChanged';

export type RotationPhase = 'steady' | 'publishing' | 'propagating' | 'retiring' | 'paused';

export type RotationPlan =
  | { readonly kind: 'none'; readonly phase: RotationPhase; readonly recheckAt: Date }
  | { readonly kind: 'prepare'; readonly reason: PrepareReason }
  | { readonly kind: 'publish'; readonly id: string; readonly without: readonly string[] | undefined }
  | {
      readonly kind: 'activate';
      readonly id: string;
      readonly reason: 'Propagated' | 'LastCall';
      readonly without: readonly string[] | undefined;
    }
  /** Signers may sign certs that end later, so the roots of these generations are needed longer. */
  | {
      readonly kind: 'record-trust';
      readonly ids: readonly string[];
      readonly until: Date;
      readonly isMovedBack?: boolean;
    }
  | {
      readonly kind: 'retire';
      readonly ids: readonly string[];
      readonly reason: 'CertsExpired' | 'Expired' | 'FromTheFuture' | 'Withdrawn';
    }
  | { readonly kind: 'abandon'; readonly id: string; readonly problem: string }
  | {
      readonly kind: 'distrust';
      readonly id: string;
      readonly ids: readonly string[];
      readonly replace: boolean;
    }
  | { readonly kind: 'renew-root' };

/** Of our own. With more, the chain of a new cert would not reach the oldest bundle that clients may hold. */
const MAX_GENERATIONS = MAX_BRIDGES + 1;
const RECHECK = MINUTE;

/** The first rule that returns a plan wins. */
const RULES: readonly ((state: RotationState) => RotationPlan | undefined)[] = [
  distrust,
  recordTrust,
  dropUnstarted,
  dropWithdrawn,
  activatePending,
  publishPending,
  renewRoot,
  prepareNext,
  retireOldest,
];

export function planRotation(state: RotationState): RotationPlan {
  // Signers need the record even while rotation is paused. Writing it never removes trust.
  for (const rule of state.paused === undefined ? RULES : [recordTrust]) {
    const plan = rule(state);
    if (plan !== undefined) return plan;
  }
  return { kind: 'none', phase: rotationPhase(state), recheckAt: recheckTime(state) };
}

export function rotationPhase({
  authority,
  paused,
}: Pick<RotationState, 'authority' | 'paused'>): RotationPhase {
  const pending = pendingGeneration(authority);
  if (paused !== undefined) return 'paused';
  if (pending !== undefined) return pending.publishedAt === undefined ? 'publishing' : 'propagating';
  return authority.generations.length > 1 ? 'retiring' : 'steady';
}

/** For users: why a request is not carried out now; undefined if there is no request, or it is in progress. */
export function refusal(state: RotationState): string | undefined {
  const { authority, imported, rotate, paused, now } = state;
  const waiting = distrustOrder(state);
  const asked = waiting !== undefined || isRequested(state);
  if (paused !== undefined) return asked ? `nothing is rotated or distrusted while ${paused}` : undefined;
  if (imported === undefined) {
    if (isRequested(state) && isFull(state))
      return `${authority.generations.length} generations are trusted already, and no chain can reach more: ${nextPossible(authority)}`;
    return undefined;
  }
  if (waiting !== undefined && !canReplaceBy(imported, authority, waiting.ids))
    return `generation ${waiting.id} signs, and the CA to be used is the same: put a new CA into its secret first`;
  const known = authority.generations.find(({ id }) => id === imported.id);
  if (known?.state === 'retiring')
    return `the CA ${imported.id} was replaced before and its key is destroyed here: put a new CA into its secret`;
  const problem = known?.state === 'pending' ? state.activationProblem : undefined;
  if (problem !== undefined)
    return `the CA ${imported.id} is published, and must not sign: ${problem}. Put another CA into its secret`;
  if (known?.state === 'active' && !isRenewal(imported, known))
    return `the CA ${imported.id} has another subject, key id or root than before and the same key: put a CA with a new key into its secret`;
  if (known?.state === 'active' && isRenewed(imported, known))
    return renewalProblem(imported, authority, now);
  if (state.distrust.includes(imported.id))
    return `the CA ${imported.id} is not to be trusted any more: put a new CA into its secret`;
  if (known === undefined && isFull(state))
    return `the bundle is too full for the CA ${imported.id}: ${nextRoom(authority, now)}`;
  if (rotate !== undefined && rotate !== authority.rotatedFor)
    return 'the CA is not ours to rotate: put a new one into its secret';
  return undefined;
}

/** At half of its life: with the default lifetime, a failing rotation then has a year before the generation expires. */
export const rotationTime = (generation: Generation): Date => momentOf(generation, 1 / 2);

/** From this time on, unreachable targets cannot delay a rotation, because their old root expires soon. */
const lastCall = (generation: Generation): Date => momentOf(generation, 7 / 8);

function momentOf(generation: Generation, fraction: number): Date {
  const { notBefore, notAfter } = lifeOf(generation);
  return after(notBefore, (notAfter.getTime() - notBefore.getTime()) * fraction);
}

/** An attacker with a key also has its bridge, because servers present it: older generations with bridges go too. */
function distrust(state: RotationState): RotationPlan | undefined {
  const order = distrustOrder(state);
  if (order === undefined) return undefined;
  const { authority, imported } = state;
  const refused = order.replace && imported !== undefined && !canReplaceBy(imported, authority, order.ids);
  return refused ? undefined : { kind: 'distrust', ...order };
}

function distrustOrder({ authority, distrust: named }: RotationState) {
  const id = named.find((one) => authority.generations.some((generation) => generation.id === one));
  if (id === undefined) return undefined;
  const ids = distrustedWith(authority, id);
  return { id, ids, replace: ids.includes(activeGeneration(authority).id) };
}

function recordTrust({ authority, now, longestLifeMs }: RotationState): RotationPlan | undefined {
  const later = laterTrust(authority, longestLifeMs, now);
  return later && { kind: 'record-trust', ...later };
}

/** Removes a pending generation from a clock far ahead of ours. It is not valid yet, and it has signed nothing. */
function dropUnstarted({ authority, now }: RotationState): RotationPlan | undefined {
  const pending = pendingGeneration(authority);
  if (pending === undefined || lifeOf(pending).notBefore <= now || pending.createdAt <= now) return undefined;
  return { kind: 'retire', ids: [pending.id], reason: 'FromTheFuture' };
}

/** Removes a pending imported CA that its owner replaced, or repaired with the same key. It has signed nothing. */
function dropWithdrawn({ authority, imported }: RotationState): RotationPlan | undefined {
  const pending = pendingGeneration(authority);
  if (pending === undefined) return undefined;
  const isWanted = imported === undefined ? isOwnGeneration(pending) : !isRenewed(imported, pending);
  if (isWanted) return undefined;
  return { kind: 'retire', ids: [pending.id], reason: 'Withdrawn' };
}

function publishPending(state: RotationState): RotationPlan | undefined {
  const { authority, now, times } = state;
  const pending = pendingGeneration(authority);
  if (pending === undefined) return undefined;
  const { id, publishedAt } = pending;
  // A clock ahead of ours wrote a time in the future. It must not delay the rotation until then.
  if (publishedAt !== undefined && publishedAt <= after(now, times.propagationWaitMs)) return undefined;
  const lagging = state.targetsWithout(id);
  return !waitsForTargets(lagging, pending, now) || isLastCall(authority, now)
    ? { kind: 'publish', id, without: namesOf(lagging) }
    : undefined;
}

/** T11: a generation that cannot sign never takes over. The owner of an imported CA replaces it. */
function activatePending(state: RotationState): RotationPlan | undefined {
  const plan = dueActivation(state);
  const problem = plan && state.activationProblem;
  if (plan === undefined || problem === undefined) return plan;
  return state.imported === undefined ? { kind: 'abandon', id: plan.id, problem } : undefined;
}

function dueActivation(state: RotationState): Extract<RotationPlan, { kind: 'activate' }> | undefined {
  const { authority, now, times, longestLifeMs } = state;
  const pending = pendingGeneration(authority);
  if (pending === undefined || lifeOf(pending).notBefore > now) return undefined;
  const { id, publishedAt } = pending;
  const lagging = state.targetsWithout(id);
  const plan = { kind: 'activate', id, without: namesOf(lagging) } as const;
  if (isExpired(activeGeneration(authority), now)) return { ...plan, reason: 'LastCall' };
  if (publishedAt === undefined || now < after(publishedAt, times.propagationWaitMs)) return undefined;
  // Check again: in the meantime a target may have appeared, or lost the root. With a known life, the rule before has
  // recorded that the previous root stays for one more life of a cert.
  if (!waitsForTargets(lagging, pending, now) && longestLifeMs !== undefined)
    return { ...plan, reason: 'Propagated' };
  return isLastCall(authority, now) ? { ...plan, reason: 'LastCall' } : undefined;
}

const isLastCall = (authority: Authority, now: Date): boolean => now >= lastCall(activeGeneration(authority));

function renewRoot({ authority, imported, now }: RotationState): RotationPlan | undefined {
  const active = activeGeneration(authority);
  if (imported === undefined || !isRenewal(imported, active) || !isRenewed(imported, active))
    return undefined;
  return renewalProblem(imported, authority, now) === undefined ? { kind: 'renew-root' } : undefined;
}

function prepareNext(state: RotationState): RotationPlan | undefined {
  const { authority, imported, now } = state;
  if (pendingGeneration(authority) !== undefined) return undefined;
  const reason = prepareReason(state);
  if (reason === undefined) return undefined;
  // At last call, a chain that does not reach the oldest bundles is better than none. A bundle without room stays full.
  const isBound = imported !== undefined || !isLastCall(authority, now);
  return isFull(state) && isBound ? undefined : { kind: 'prepare', reason };
}

/** The owner of an imported CA can replace it without a wait: chains then do not reach the oldest bundles. */
const isFull = ({ authority, imported, now }: RotationState): boolean =>
  imported === undefined
    ? authority.generations.length >= MAX_GENERATIONS
    : !hasRoomFor(imported, authority, now);

function prepareReason(state: RotationState): PrepareReason | undefined {
  const { authority, now, imported, distrust: named } = state;
  if (imported !== undefined) {
    const isKnown = authority.generations.some(({ id }) => id === imported.id);
    return isKnown || named.includes(imported.id) ? undefined : 'ImportedCaChanged';
  }
  if (isRequested(state)) return 'Requested';
  return now >= rotationTime(activeGeneration(authority)) ? 'HalfLife' : undefined;
}

const isRequested = ({ authority, rotate, imported }: RotationState): boolean =>
  imported === undefined && rotate !== undefined && rotate !== authority.rotatedFor;

/** A target without the active root delays this until the old root expires. */
function retireOldest({ authority, now, targetsWithout }: RotationState): RotationPlan | undefined {
  const active = activeGeneration(authority);
  const over = unneeded(authority, !waitsForTargets(targetsWithout(active.id), active, now), now);
  if (over.length === 0) return undefined;
  const reason = over.every((generation) => isExpired(generation, now)) ? 'Expired' : 'CertsExpired';
  return { kind: 'retire', ids: over.map(({ id }) => id), reason };
}

function recheckTime({ authority, now, times, imported, longestLifeMs }: RotationState): Date {
  const { generations } = authority;
  const active = activeGeneration(authority);
  const pending = pendingGeneration(authority);
  const instants = [
    ...generations.map((generation) => lifeOf(generation).notAfter),
    ...generations.map(retirementTime),
    nextRecordTime(active, longestLifeMs),
    pending?.publishedAt && after(pending.publishedAt, times.propagationWaitMs),
    pending && delayEnd(pending),
    lastCall(active),
    imported === undefined ? rotationTime(active) : lifeOf(imported).notBefore,
    // During a rotation, evidence may change without a notification. Otherwise only a clock jump matters.
    after(now, pending === undefined ? HOUR : RECHECK),
  ];
  return earliest(...instants.filter((instant) => instant !== undefined).filter((instant) => instant > now));
}
