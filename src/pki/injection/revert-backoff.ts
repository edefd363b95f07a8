/** Somebody else keeps on taking the CA bundle away. We put it back, but not as often as they can take it. */
import { after, MINUTE, SECOND } from '../durations.ts';

/** What is remembered of one object between two writes. */
export interface Fight {
  /** What was written last. */
  readonly bundle: string;
  readonly writtenAt: Date;
  /** When it was found to be gone again, within the last {@link WINDOW}. */
  readonly reverts: readonly Date[];
  /** How long to wait after a write before the next one, in milliseconds; 0 before there is a fight. */
  readonly slowMs: number;
}

export type Bout =
  /** `fight` is to be remembered once the write has succeeded. */
  | { readonly kind: 'write'; readonly fight: Fight }
  /** `fight` is to be remembered at once. */
  | { readonly kind: 'wait'; readonly until: Date; readonly fight: Fight; readonly begins: boolean };

const WINDOW = 5 * MINUTE;
/** A Helm upgrade or a sync reverts once; a loop does it for ever. */
const MAX_REVERTS = 10;
const SLOWEST = 5 * MINUTE;

/** Whether to write a bundle again that is found to be gone. */
export function nextBout(fight: Fight | undefined, bundle: string, now: Date): Bout {
  if (fight === undefined)
    return { kind: 'write', fight: { bundle, writtenAt: now, reverts: [], slowMs: 0 } };
  // A new bundle is news, not an answer, and must not be late.
  if (fight.bundle !== bundle) return { kind: 'write', fight: { ...fight, bundle, writtenAt: now } };
  if (isOver(fight, now))
    return { kind: 'write', fight: { bundle, writtenAt: now, reverts: [now], slowMs: 0 } };

  const { slowMs, writtenAt } = fight;
  if (slowMs > 0) {
    const until = after(writtenAt, slowMs);
    return now < until
      ? { kind: 'wait', until, fight, begins: false }
      : { kind: 'write', fight: { ...fight, writtenAt: now, slowMs: Math.min(SLOWEST, slowMs * 2) } };
  }
  const reverts = [...fight.reverts.filter((at) => at > after(now, -WINDOW)), now];
  if (reverts.length <= MAX_REVERTS)
    return { kind: 'write', fight: { bundle, writtenAt: now, reverts, slowMs } };
  const contended = { ...fight, reverts, slowMs: SECOND };
  return { kind: 'wait', until: after(now, SECOND), fight: { ...contended, writtenAt: now }, begins: true };
}

/** When a fight counts as over, if the bundle stays until then. */
export const peaceAt = ({ writtenAt, slowMs }: Fight): Date => after(writtenAt, Math.max(WINDOW, 2 * slowMs));

/** A clock that went backwards says nothing about when the last write was: better a write too many than none for a year. */
const isOver = (fight: Fight, now: Date): boolean => now < fight.writtenAt || now >= peaceAt(fight);

export const isContended = (fight: Fight | undefined): fight is Fight => (fight?.slowMs ?? 0) > 0;
