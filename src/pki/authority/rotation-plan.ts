import { isDeepStrictEqual } from 'node:util';
import { activeGeneration, type Authority, distrustedWith } from './authority.ts';
import { subjectOf } from '../x509/certificate.ts';
import { after, earliest, HOUR, MINUTE } from '../durations.ts';
import { isExpired, rootOf, type Generation, type ImportedAuthority } from './generation.ts';
import { firstCertificate, holdsSameCertificates } from '../x509/pem.ts';

/** In milliseconds. */
export interface RotationTimes {
  /** The wait between "every target holds the new root" and its first use: clients may mount or cache the bundle. */
  readonly propagationWaitMs: number;
  /** The wait between "a generation has no serving certs left" and its removal: servers may reload late. */
  readonly graceMs: number;
}

export interface RotationState {
  readonly authority: Authority;
  readonly now: Date;
  readonly times: RotationTimes;
  /** Targets of the CA bundle that lack the root of a generation; undefined: not known. */
  readonly targetsWithout: (generation: string) => readonly string[] | undefined;
  /** How many live serving certs a generation has; undefined: not known. */
  readonly liveCertsOf: (generation: string) => number | undefined;
  /** Value of the annotation that requests a rotation. */
  readonly rotate: string | undefined;
  /** Generations that the annotation distrusts. */
  readonly distrust: readonly string[];
  /** For users: why no change is allowed now; undefined: changes are allowed. */
  readonly paused: string | undefined;
  /** The CA that its owner makes and rotates; undefined: Gatehouse makes its own. */
  readonly imported: ImportedAuthority | undefined;
}

export type PrepareReason = 'Requested' | 'HalfLife' | 'ImportedCaChanged';

export type RotationPhase = 'steady' | 'publishing' | 'propagating' | 'retiring' | 'paused';

export type RotationPlan =
  | { readonly kind: 'none'; readonly phase: RotationPhase; readonly recheckAt: Date }
  /** Make a new generation. Clients start to trust it, but it does not sign yet. */
  | { readonly kind: 'prepare'; readonly reason: PrepareReason }
  /** Every target holds the root of the pending generation: the wait begins. */
  | { readonly kind: 'publish'; readonly id: string }
  | { readonly kind: 'activate'; readonly id: string; readonly reason: 'Propagated' | 'LastCall' }
  /** Only record which retiring generations have serving certs left. */
  | { readonly kind: 'note-drained'; readonly drained: readonly string[]; readonly live: readonly string[] }
  | {
      readonly kind: 'retire';
      readonly ids: readonly string[];
      readonly reason: 'Drained' | 'Expired' | 'FromTheFuture';
    }
  /** `ids`: the generation and all that lead to it. `replace`: the active generation is among them. */
  | {
      readonly kind: 'distrust';
      readonly id: string;
      readonly ids: readonly string[];
      readonly replace: boolean;
    }
  /** The owner of an imported CA made a new root for the current key. */
  | { readonly kind: 'renew-root' };

/** More generations would lengthen every chain. The next rotation waits until the oldest one is removed. */
const MAX_GENERATIONS = 3;
/** How often to check evidence whose changes no watch reports. */
const RECHECK = MINUTE;

type Rule = (state: RotationState) => RotationPlan | undefined;

/** The first rule that returns a plan wins. */
const RULES: readonly Rule[] = [
  distrust,
  dropUnstarted,
  activatePending,
  publishPending,
  renewRoot,
  prepareNext,
  retireOldest,
  noteDrained,
];

/** The next step for the authority, decided from `state` alone: no clock, no I/O. */
export function planRotation(state: RotationState): RotationPlan {
  if (state.paused === undefined) {
    for (const rule of RULES) {
      const plan = rule(state);
      if (plan !== undefined) return plan;
    }
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
  const { authority, imported, rotate, paused } = state;
  const waiting = distrustOrder(state);
  const asked = waiting !== undefined || isRequested(state);
  if (paused !== undefined) return asked ? `nothing is rotated or distrusted while ${paused}` : undefined;
  if (imported === undefined) {
    if (isRequested(state) && authority.generations.length >= MAX_GENERATIONS)
      return `${authority.generations.length} generations are trusted already: the next one is made when the oldest is gone`;
    return undefined;
  }
  if (waiting !== undefined && !canReplaceBy(imported, authority, waiting.ids))
    return `generation ${waiting.id} signs, and the CA to be used is the same: put a new CA into its secret first`;
  const known = authority.generations.find(({ id }) => id === imported.id);
  if (known?.state === 'retiring')
    return `the CA ${imported.id} was replaced before and its key is destroyed here: put a new CA into its secret`;
  if (known?.state === 'active' && !isSameSubject(imported, known))
    return `the CA ${imported.id} has another subject or key id than before and the same key: put a CA with a new key into its secret`;
  if (state.distrust.includes(imported.id))
    return `the CA ${imported.id} is not to be trusted any more: put a new CA into its secret`;
  if (rotate !== undefined && rotate !== authority.rotatedFor)
    return 'the CA is not ours to rotate: put a new one into its secret';
  return undefined;
}

const pendingGeneration = ({ generations }: Authority): Generation | undefined =>
  generations.find(({ state }) => state === 'pending');

/** At half of its life. With the default lifetime, a failing rotation then has a year before the generation expires. */
export function rotationTime(generation: Generation): Date {
  return momentOf(generation, 1 / 2);
}

/** From this time on, an unreachable target no longer delays a rotation: its old root expires soon in any case. */
const lastCall = (generation: Generation): Date => momentOf(generation, 7 / 8);

function momentOf(generation: Generation, fraction: number): Date {
  const { validFromDate, validToDate } = rootOf(generation);
  return after(validFromDate, (validToDate.getTime() - validFromDate.getTime()) * fraction);
}

/**
 * An attacker with the key of a generation also has its bridge, because servers present it. So all older generations
 * with bridges to it are removed too. One Secret holds the keys of the active and the pending generation: they are
 * removed together.
 */
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

const canReplaceBy = (
  { id }: ImportedAuthority,
  { generations }: Authority,
  dropped: readonly string[],
): boolean => !dropped.includes(id) && !generations.some((generation) => generation.id === id);

/** Removes a pending generation from a clock far ahead of ours. It is not valid yet, and it has signed nothing. */
function dropUnstarted({ authority, now }: RotationState): RotationPlan | undefined {
  const pending = pendingGeneration(authority);
  if (pending === undefined || rootOf(pending).validFromDate <= now || pending.createdAt <= now)
    return undefined;
  return { kind: 'retire', ids: [pending.id], reason: 'FromTheFuture' };
}

function publishPending(state: RotationState): RotationPlan | undefined {
  const { authority, now, times, targetsWithout } = state;
  const pending = pendingGeneration(authority);
  if (pending === undefined) return undefined;
  const { id, publishedAt } = pending;
  // A clock ahead of ours wrote a time in the future. It must not delay the rotation until then.
  if (publishedAt !== undefined && publishedAt <= after(now, times.propagationWaitMs)) return undefined;
  const everywhere = targetsWithout(id)?.length === 0;
  return everywhere || isLastCall(authority, now) ? { kind: 'publish', id } : undefined;
}

function activatePending({ authority, now, times, targetsWithout }: RotationState): RotationPlan | undefined {
  const pending = pendingGeneration(authority);
  if (pending === undefined || rootOf(pending).validFromDate > now) return undefined;
  const { id, publishedAt } = pending;
  if (isExpired(activeGeneration(authority), now)) return { kind: 'activate', id, reason: 'LastCall' };
  if (publishedAt === undefined || now < after(publishedAt, times.propagationWaitMs)) return undefined;
  // Check again: in the meantime a target may have appeared, or lost the root.
  if (targetsWithout(id)?.length === 0) return { kind: 'activate', id, reason: 'Propagated' };
  return isLastCall(authority, now) ? { kind: 'activate', id, reason: 'LastCall' } : undefined;
}

const isLastCall = (authority: Authority, now: Date): boolean => now >= lastCall(activeGeneration(authority));

function renewRoot({ authority, imported }: RotationState): RotationPlan | undefined {
  const active = activeGeneration(authority);
  if (imported?.id !== active.id || !isSameSubject(imported, active)) return undefined;
  return holdsSameCertificates(imported.certificate, active.certificate) ? undefined : { kind: 'renew-root' };
}

/** Certs refer to their issuer by name and key id: a root can replace another one only if both are the same. */
function isSameSubject(imported: ImportedAuthority, active: Generation): boolean {
  const [before, now] = [active, imported].map(({ certificate }) => subjectOf(firstCertificate(certificate)));
  return isDeepStrictEqual(before, now);
}

function prepareNext(state: RotationState): RotationPlan | undefined {
  const { authority, now } = state;
  if (pendingGeneration(authority) !== undefined) return undefined;
  const reason = prepareReason(state);
  if (reason === undefined) return undefined;
  const full = authority.generations.length >= MAX_GENERATIONS && !isLastCall(authority, now);
  return full ? undefined : { kind: 'prepare', reason };
}

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

/**
 * Retires generations that nothing needs any more, from the oldest on. A generation before a needed one stays, because
 * bridges lead through it. A target without the active root delays this until the old root expires.
 */
function retireOldest(state: RotationState): RotationPlan | undefined {
  const { authority, now, times, targetsWithout } = state;
  const updated = targetsWithout(activeGeneration(authority).id)?.length === 0;
  const isOver = (generation: Generation): boolean => {
    const { state: stage, drainedAt, id } = generation;
    if (stage !== 'retiring') return false;
    if (isExpired(generation, now)) return true;
    const isQuiet = drainedAt !== undefined && now >= after(drainedAt, times.graceMs);
    return isQuiet && updated && state.liveCertsOf(id) === 0;
  };
  const needed = authority.generations.findLastIndex((generation) => !isOver(generation));
  const over = authority.generations.slice(needed + 1);
  if (over.length === 0) return undefined;
  const reason = over.every((generation) => isExpired(generation, now)) ? 'Expired' : 'Drained';
  return { kind: 'retire', ids: over.map(({ id }) => id), reason };
}

function noteDrained({ authority, now, times, liveCertsOf }: RotationState): RotationPlan | undefined {
  const retiring = authority.generations.filter(({ state }) => state === 'retiring');
  const idsOf = (when: (generation: Generation, liveCerts: number) => boolean) =>
    retiring
      .filter((generation) => {
        const liveCerts = liveCertsOf(generation.id);
        return liveCerts !== undefined && when(generation, liveCerts);
      })
      .map(({ id }) => id);
  const latest = after(now, times.graceMs);
  const drained = idsOf(({ drainedAt = Infinity }, liveCerts) => liveCerts === 0 && drainedAt > latest);
  const live = idsOf(({ drainedAt }, liveCerts) => liveCerts > 0 && drainedAt !== undefined);
  return drained.length + live.length === 0 ? undefined : { kind: 'note-drained', drained, live };
}

/** The next instant at which the passage of time alone may change the plan. */
function recheckTime({ authority, now, times, imported }: RotationState): Date {
  const { generations } = authority;
  const published = pendingGeneration(authority)?.publishedAt;
  const instants = [
    ...generations.map((generation) => rootOf(generation).validToDate),
    ...generations.map(({ drainedAt }) => drainedAt && after(drainedAt, times.graceMs)),
    published && after(published, times.propagationWaitMs),
    lastCall(activeGeneration(authority)),
    imported === undefined ? rotationTime(activeGeneration(authority)) : undefined,
    // During a rotation, evidence may change without a notification. Otherwise only a clock jump matters.
    after(now, generations.length > 1 ? RECHECK : HOUR),
  ];
  return earliest(...instants.filter((instant) => instant !== undefined).filter((instant) => instant > now));
}
