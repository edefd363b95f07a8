/** Until when clients need the root of a generation. It is stored before a signer makes a cert that needs it longer. */
import {
  after,
  DAY,
  earliest,
  CLOCK_TOLERANCE,
  DEFAULT_SERVING_CERT_LIFETIME,
  MAX_SERVING_CERT_LIFETIME,
} from '../durations.ts';
import { activeGeneration, type Authority } from './authority.ts';
import { isExpired, rootOf, type Generation } from './generation.ts';

/** A record is this much longer than needed, and is extended at half of it: at most two writes a day. */
const AHEAD = DAY;

/** A generation signs certs of the default life until the next one takes over: a shorter record was moved back. */
function movedBack({ generations }: Authority) {
  for (const [index, generation] of generations.entries()) {
    const newer = generations[index - 1];
    const signedAt = newer?.bridge === undefined ? generation.activatedAt : newer.activatedAt;
    if (generation.state !== 'retiring' || signedAt === undefined) continue;
    const until = after(signedAt, DEFAULT_SERVING_CERT_LIFETIME);
    if (!isRecorded(generation, until)) return { ids: [generation.id], until, isMovedBack: true };
  }
  return undefined;
}

/** Records to extend now. Without a record, an older version may have signed certs of the longest life until now. */
export function laterTrust(authority: Authority, longestLifeMs: number | undefined, now: Date) {
  const unrecorded = authority.generations.filter(
    ({ state, trustedUntil }) => state !== 'pending' && trustedUntil === undefined,
  );
  if (unrecorded.length > 0)
    return { ids: unrecorded.map(({ id }) => id), until: after(now, MAX_SERVING_CERT_LIFETIME) };
  const restored = movedBack(authority);
  if (restored !== undefined) return restored;
  const active = activeGeneration(authority);
  if (longestLifeMs === undefined || isRecorded(active, after(now, longestLifeMs + AHEAD / 2)))
    return undefined;
  return { ids: [active.id], until: after(now, longestLifeMs + AHEAD) };
}

const isRecorded = (generation: Generation, until: Date): boolean =>
  generation.trustedUntil !== undefined &&
  generation.trustedUntil >= earliest(until, rootOf(generation).validToDate);

/** Since when the record is too short for new certs of the default life, although the leader extends it before. */
export function lateRecord({ generations }: Authority, now: Date): Date | undefined {
  const active = generations.find(({ state }) => state === 'active');
  if (active?.trustedUntil === undefined) return undefined;
  return isRecorded(active, after(now, DEFAULT_SERVING_CERT_LIFETIME))
    ? undefined
    : after(active.trustedUntil, -DEFAULT_SERVING_CERT_LIFETIME);
}

export const nextRecordTime = ({ trustedUntil }: Generation, longestLifeMs: number | undefined) =>
  trustedUntil === undefined || longestLifeMs === undefined
    ? undefined
    : after(trustedUntil, -(longestLifeMs + AHEAD / 2));

/** When every cert that it signed has expired: clients that hold only this root need it until then. */
export function retirementTime(generation: Generation): Date | undefined {
  const { state, trustedUntil } = generation;
  if (state !== 'retiring' || trustedUntil === undefined) return undefined;
  return earliest(after(trustedUntil, CLOCK_TOLERANCE), rootOf(generation).validToDate);
}

/** The oldest generations that nothing needs. A generation before a needed one stays: bridges lead through it. */
export function unneeded({ generations }: Authority, updated: boolean, now: Date): readonly Generation[] {
  const isOver = (generation: Generation): boolean => {
    const at = retirementTime(generation);
    const areCertsOver = at !== undefined && now >= at && updated;
    return generation.state === 'retiring' && (isExpired(generation, now) || areCertsOver);
  };
  return generations.slice(generations.findLastIndex((generation) => !isOver(generation)) + 1);
}

/** For users: when the oldest generation makes room for another one. */
export function nextPossible({ generations }: Authority): string {
  const oldest = generations.at(-1);
  const at = oldest && retirementTime(oldest);
  return at === undefined
    ? 'the next one is made when the oldest is gone'
    : `the next one is made after ${at.toISOString()}, when the certs of generation ${oldest?.id ?? ''} have expired`;
}
