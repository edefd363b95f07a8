/**
 * The intents that this replica holds: a write under a held intent doesn't store another one. Only an active intent
 * accepts writes. It is removed once it is inactive and all writes under it are over. Intents are never renewed, and
 * their names are never used again.
 */
import { randomUUID } from 'node:crypto';

import {
  DELETION_INTENT_LABEL,
  heldIntentName,
  heldWriteName,
  newIntent,
  serializableReferences,
  targetLabel,
} from '../../admission/policy/references/check-references.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { holderRef } from '../../admission/policy/unique/claim-state.ts';
import type { ClaimStore, Holding, HeldTarget } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { ObjectRef } from '../../json/kube-object.ts';
import { createClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { watch, type Watched } from '../watch.ts';
import { createClaims } from './claims.ts';

/** How long an intent takes writes, in milliseconds. If the replica dies, deletions wait as long, and the settle time. */
export const HOLD_MS = 10_000;
const IDLE_MS = 2_000;
const RETRY_MS = 1_000;
const AT_ONCE = 8;
/** Limit for held intents. Above it, each write stores a separate intent, which counts against the user's limit. */
const MOST_HELD = 1_000;

interface Held {
  readonly target: ObjectRef;
  readonly claim: UniqueClaim;
  /** When it stops accepting writes: by the API server's clock, and by the monotonic clock. */
  readonly until: number;
  readonly monotonicUntil: number;
  readonly writes: Set<string>;
  storing?: Promise<UniqueClaim>;
  /** The creation failed: the API server may still store the intent. */
  isLost: boolean;
  isClear: boolean;
  usedAt: number;
  removeAt: number;
  retryMs: number;
}

export interface HeldIntentsOptions {
  readonly claims: Pick<ClaimStore, 'create' | 'read' | 'settleMs'>;
  readonly identity: string;
  readonly now: () => number;
  readonly monotonic: () => number;
  /** Whether this replica sees the intents of deletions. Otherwise deletions would wait for long. */
  readonly seesDeletions: () => boolean;
  /** Ends the creation of an intent. Several requests wait for it, so it does not use their signals. */
  readonly timeout: () => AbortSignal;
  readonly cleanup: Pick<ClaimStore, 'read' | 'remove'>;
  readonly signal: AbortSignal;
  readonly mostHeld?: number;
}

export type HeldIntents = ReturnType<typeof createHeldIntents>;

export function createHeldIntents(options: HeldIntentsOptions) {
  const { claims, identity, now, monotonic, seesDeletions, timeout, cleanup, signal } = options;
  const { mostHeld = MOST_HELD } = options;
  const active = new Map<string, Held>();
  const all = new Set<Held>();
  /** The admitted writes that are possibly not stored yet, by name. */
  const admitted = new Map<string, { readonly write: UniqueClaim; readonly under: readonly Held[] }>();
  let count = 0;
  let isStopped = false;

  const isUsable = ({ until, monotonicUntil }: Held): boolean =>
    now() < until && monotonic() < monotonicUntil;
  const activeFor = (target: ObjectRef): Held | undefined => {
    const held = active.get(targetKey(target));
    return held !== undefined && isUsable(held) ? held : undefined;
  };
  const isActive = (held: Held): boolean => active.get(targetKey(held.target)) === held;
  const retire = (held: Held): void => {
    if (isActive(held)) active.delete(targetKey(held.target));
  };
  const begin = ({ target, policy, reference }: HeldTarget): Held => {
    const monotonicUntil = monotonic() + HOLD_MS;
    const until = now() + HOLD_MS;
    const spec = { policy: policy.name, rule: `references/${reference.name}` };
    const name = heldIntentName(`${identity} ${String(++count)}`);
    const at = new Date(until).toISOString();
    const claim = newIntent(name, spec, target, [targetLabel(target)], { at }, until);
    const times = { until, monotonicUntil, usedAt: monotonic(), removeAt: 0, retryMs: RETRY_MS };
    const held: Held = { target, claim, ...times, writes: new Set(), isClear: false, isLost: false };
    active.set(targetKey(target), held);
    all.add(held);
    return held;
  };
  const store = (held: Held): Promise<UniqueClaim> => {
    held.storing ??= create(held.claim, claims, timeout()).catch((error: unknown) => {
      held.isLost = true;
      retire(held);
      throw error;
    });
    return held.storing;
  };

  const hold = (targets: readonly HeldTarget[]): Holding | undefined => {
    if (isStopped || !seesDeletions()) return undefined;
    const fresh = targets.filter(({ target }) => activeFor(target) === undefined);
    // A write stores at most one intent: a write with several new targets stores a separate one for all of them.
    if (fresh.length > 1 || all.size + fresh.length > mostHeld) return undefined;
    const name = heldWriteName(String(++count));
    const under = targets.map((one) => activeFor(one.target) ?? begin(one));
    for (const held of under) {
      held.writes.add(name);
      held.usedAt = monotonic();
    }
    const of = (target: ObjectRef) => under.find((held) => targetKey(held.target) === targetKey(target));
    return {
      name,
      stored: async () => {
        await Promise.all(under.map(store));
      },
      isClear: (target) => of(target)?.isClear ?? false,
      report: (target, isClear) => {
        const held = of(target);
        if (held === undefined) return;
        if (isClear) held.isClear = true;
        else retire(held);
      },
      end: (write) => {
        if (write !== undefined) {
          admitted.set(name, { write, under });
          return;
        }
        for (const { writes } of under) writes.delete(name);
        if (!under.every(isActive)) clean();
      },
    };
  };

  const clean = (): void => {
    const isIdle = ({ writes, usedAt }: Held) => writes.size === 0 && monotonic() - usedAt >= IDLE_MS;
    for (const held of active.values()) if (!isUsable(held) || isIdle(held)) retire(held);
    const isDue = (held: Held) => !isActive(held) && held.writes.size === 0 && held.removeAt <= monotonic();
    const due = [...all].filter(isDue);
    for (const held of due) held.removeAt = Infinity;
    void mapConcurrent(due, AT_ONCE, async (held) => {
      const isGone = await removed(held, cleanup, signal).catch(() => false);
      // An intent that cannot be removed expires: then no deletion waits for it.
      if (isGone || now() > held.until + claims.settleMs) all.delete(held);
      else held.removeAt = monotonic() + held.retryMs;
      // Most likely, the API server never stores it.
      if (held.isLost) held.retryMs *= 2;
    });
  };

  const releaseAll = (): void => {
    active.clear();
    clean();
  };

  return {
    hold,
    /** What says when this admitted write is over; undefined: it is over, or not admitted yet. */
    writeOf: (name: string): UniqueClaim | undefined => admitted.get(name)?.write,
    finish: (name: string): void => {
      const { under = [] } = admitted.get(name) ?? {};
      for (const { writes } of under) writes.delete(name);
      admitted.delete(name);
      if (!under.every(isActive)) clean();
    },
    release: (target: ObjectRef): void => {
      if (active.delete(targetKey(target))) clean();
    },
    releaseAll,
    /** Before the process ends: deletions would wait for the intents that it leaves. */
    stop: (): void => {
      isStopped = true;
      releaseAll();
    },
    clean,
    count: (): number => all.size,
  };
}

async function create(
  claim: UniqueClaim,
  { create: make, read }: Pick<ClaimStore, 'create' | 'read'>,
  signal: AbortSignal,
): Promise<UniqueClaim> {
  const made = await make(claim, signal);
  // The API server repeats a call that got no answer. Only this process knows the name.
  const stored = made === 'taken' ? await read(claim.metadata.name ?? '', signal) : made;
  if (stored === undefined) throw new Error(`the intent ${claim.metadata.name ?? ''} has been removed`);
  return stored;
}

async function removed(
  { claim, storing }: Held,
  { read, remove }: Pick<ClaimStore, 'read' | 'remove'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (storing === undefined) return true;
  const stored = await storing.catch(() => undefined);
  if (stored !== undefined && (await remove(stored, signal)) === 'removed') return true;
  const current = await read(claim.metadata.name ?? '', signal);
  if (current === undefined) return stored !== undefined;
  return (await remove(current, signal)) === 'removed';
}

const CLEAN_MS = 250;
/** Timeout for creating an intent, in milliseconds. After it, the waiting writes are retried. */
const STORE_MS = 5_000;

export function startHeldIntents(
  context: Context,
  registry: Pick<PolicyRegistry, 'inForce' | 'subscribe'>,
  claims: Pick<ClaimStore, 'create' | 'read' | 'settleMs'>,
  signal: AbortSignal,
): HeldIntents {
  const { config, serverClock, rest, rollbacks } = context;
  let deletions: Watched<UniqueClaim> | undefined;
  const held = createHeldIntents({
    claims,
    identity: randomUUID(),
    now: () => serverClock.now().getTime(),
    monotonic: () => performance.now(),
    seesDeletions: () => deletions?.hasSynced() === true && deletions.failure() === undefined,
    timeout: () => AbortSignal.any([signal, AbortSignal.timeout(STORE_MS)]),
    // Uses the connections of controllers, so that admission reviews keep theirs.
    cleanup: createClaims(createClient(rest), config.uniqueSettleMs),
    signal,
  });
  const watchDeletions = (): void => {
    const isNeeded = registry.inForce().some((policy) => serializableReferences(policy).length > 0);
    if (!isNeeded || deletions !== undefined) return;
    const options = { resource: UNIQUE_CLAIMS, labelSelector: DELETION_INTENT_LABEL };
    const watched = watch<UniqueClaim>(context, options, signal);
    deletions = watched;
    watched.onChange((key) => {
      const deletion = watched.store.get(key);
      if (deletion !== undefined) held.release(holderRef(deletion));
    }, signal);
  };
  registry.subscribe(() => {
    watchDeletions();
    held.releaseAll();
  }, signal);
  watchDeletions();
  rollbacks.add(held.releaseAll, signal);
  const cleaning = setInterval(held.clean, CLEAN_MS);
  signal.addEventListener('abort', () => clearInterval(cleaning));
  return held;
}
