/** The claims of this process whose holders are not stored yet: limited, because a requester can make that write fail. */
import { createHash } from 'node:crypto';

import { isIntent, isHeldWrite } from '../../admission/policy/references/check-references.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import type { Claims } from '../../admission/policy/world.ts';
import { type ObjectRef, refOf } from '../../json/kube-object.ts';
import { createTally } from '../../server/limits/turns.ts';
import { createClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, GONE, startController, type Reconcile } from '../controller.ts';
import { repairOptions, type ClaimSources, finishIntent, isOver } from './claims.ts';
import type { HeldIntents } from './held-intents.ts';
import { createRecent } from './recent.ts';
import { createUniqueClaimsReconciler } from './unique-claims.ts';

/** A claim is about 1 KB in etcd. Stored objects settle their claims: the limits only delay clients whose writes fail. */
const LIMITS = {
  perUser: 512,
  /** In the process. Above it, `perNamespace` limits the claims of all users and policies in a namespace. */
  total: 8_192,
  perNamespace: 512,
};

interface Entry {
  readonly counters: readonly [byUser: string, byNamespace: string];
  readonly holder: string;
  /** After this time the write cannot be stored any more, by the monotonic clock. */
  readonly settledAt: number;
}

export type UnsettledClaims = ReturnType<typeof createUnsettledClaims>;

export function createUnsettledClaims(
  settleMs: number,
  monotonic: () => number,
  onRefused: () => void,
  limits = LIMITS,
) {
  const entries = new Map<string, Entry>();
  const counts = createTally();
  const intents = new Map<string, Set<string>>();

  const drop = (claim: string): void => {
    const { counters, holder } = entries.get(claim) ?? { counters: [], holder: '' };
    for (const counter of counters) counts.add(counter, -1);
    entries.delete(claim);
    const others = intents.get(holder);
    others?.delete(claim);
    if (others?.size === 0) intents.delete(holder);
  };
  const put = (claim: string, entry: Omit<Entry, 'settledAt'>): Entry => {
    drop(claim);
    for (const counter of entry.counters) counts.add(counter, 1);
    const placed = { ...entry, settledAt: monotonic() + settleMs };
    entries.set(claim, placed);
    if (isIntent(claim)) {
      const others = intents.get(entry.holder) ?? new Set();
      intents.set(entry.holder, others.add(claim));
    }
    return placed;
  };
  /** The first request always passes: an object with more keys than the limit could never be stored otherwise. */
  const exceeds = (counter: string, more: number, limit: number): boolean => {
    const before = counts.of(counter);
    return before > 0 && before + more > limit;
  };

  const reserve: Claims['reserve'] = (keys, username) => {
    const wanted = [...Map.groupBy(keys, ({ policy }) => policy.name)].flatMap(([policy, group]) => {
      const counters = countersOf(username, policy, group[0]?.self);
      return group.map((key) => ({
        key,
        claim: key.claim,
        entry: { counters, holder: targetKey(key.self) },
      }));
    });
    const fresh = wanted.filter(({ claim }) => !entries.has(claim));
    const isCrowded = entries.size + fresh.length > limits.total;
    const ofPolicies = [...Map.groupBy(fresh, ({ entry }) => entry.counters)];
    const refused = ofPolicies.flatMap(([[byUser, byNamespace], group]) => {
      const isRefused =
        exceeds(byUser, group.length, limits.perUser) ||
        (isCrowded && exceeds(byNamespace, group.length, limits.perNamespace));
      return isRefused ? group.map(({ key }) => key) : [];
    });
    if (refused.length > 0) {
      onRefused();
      return { refused, written: () => undefined };
    }
    const reserved = fresh.map(({ claim, entry }) => ({ claim, entry: put(claim, entry) }));
    const written = (claims: readonly string[]): void => {
      const remaining = new Set(claims);
      for (const { claim, entry } of wanted) {
        // The first writer stays responsible: otherwise two users could pass claims to each other and write more.
        const { counters } = entries.get(claim) ?? entry;
        if (remaining.has(claim)) put(claim, { ...entry, counters });
      }
      for (const { claim, entry } of reserved) if (entries.get(claim) === entry) drop(claim);
    };
    return { refused, written };
  };

  return {
    reserve,
    settle: (ref: ObjectRef, claims: readonly string[]): void => {
      for (const claim of claims) if (entries.get(claim)?.holder === targetKey(ref)) drop(claim);
    },
    intentsOf: (ref: ObjectRef): readonly string[] => [...(intents.get(targetKey(ref)) ?? [])],
    /** A claim is returned again after another settle time, until a cleanup succeeds. */
    takeDue: (): readonly string[] => {
      const now = monotonic();
      const due = [...entries].filter(([, { settledAt }]) => settledAt <= now);
      for (const [claim, entry] of due) put(claim, entry);
      return due.map(([claim]) => claim);
    },
    get: (claim: string): Entry | undefined => entries.get(claim),
    cleaned: (claim: string, entry: Entry): void => {
      if (entries.get(claim) === entry) drop(claim);
    },
    count: (): number => entries.size,
  };
}

const SERVICE_ACCOUNT = /^system:serviceaccount:[^:]*:/;

/** A tenant can create many service accounts. Names are hashed: a forged name can be long. */
function countersOf(username: string, policy: string, self: ObjectRef | undefined): Entry['counters'] {
  const namespace = self?.namespace ?? '';
  const user = SERVICE_ACCOUNT.exec(username)?.[0] ?? username;
  const byUser = createHash('sha256')
    .update(JSON.stringify([user, namespace, policy]))
    .digest('base64');
  return [byUser, `namespace ${namespace}`];
}

const SEARCH_MS = 1_000;
const WORKERS = 4;
/** Limit for remembered objects with intents. The intent of a forgotten object stays until the settle time is over. */
const MOST_STORED = 10_000;

export function startUnsettledClaims(
  context: Context,
  sources: ClaimSources,
  unsettled: UnsettledClaims,
  held: HeldIntents,
  signal: AbortSignal,
): void {
  const { config, metrics, rest, serverClock } = context;
  const stored = createRecent(MOST_STORED, config.uniqueSettleMs);
  const options = repairOptions({ ...context, client: createClient(rest) }, sources);
  const repair = createUniqueClaimsReconciler({
    ...options,
    // The leader knows more: these claims only wait for longer.
    wasStored: () => false,
    enqueue: () => undefined,
    onHolders: () => undefined,
  });
  const reconcile: Reconcile = async (claim, reconciling) => {
    const entry = unsettled.get(claim);
    if (entry === undefined) return GONE;
    if (isHeldWrite(claim)) {
      const write = held.writeOf(claim);
      if (write === undefined) return AWAIT_CHANGE; // not admitted yet
      const known = { ...sources.world, ...options.claims, wasStored: stored.has };
      if (await isOver(write, known, serverClock.now().getTime(), reconciling)) {
        held.finish(claim);
        unsettled.cleaned(claim, entry);
      }
      return AWAIT_CHANGE;
    }
    if (isIntent(claim)) {
      await options.pace(reconciling);
      const now = serverClock.now().getTime();
      const examined = [claim, options.claims, sources.world, now, reconciling, stored.has] as const;
      if (await finishIntent(...examined)) unsettled.cleaned(claim, entry);
      return AWAIT_CHANGE; // the object changes, or the settle time is over
    }
    const result = await repair(claim, reconciling);
    if (result.kind !== 'requeue') unsettled.cleaned(claim, entry);
    return result;
  };
  const { now: serverNow } = serverClock;
  const running = { name: 'unsettled-claims', concurrency: WORKERS, serverNow, reconcile };
  const controller = startController(context, running, signal);
  sources.governed.onChange((kind, { kind: change, object }) => {
    const ref = refOf(kind, object);
    if (change !== 'deleted') unsettled.settle(ref, object.claims ?? []);
    const intents = unsettled.intentsOf(ref);
    // The object may be gone when its intent is examined.
    if (intents.length > 0) stored.add(object.metadata?.uid ?? '');
    for (const intent of intents) controller.add(intent);
  }, signal);
  sources.targets.onChange(({ group, resource }, key) => {
    const [name = '', namespace] = key.split('/').reverse();
    for (const intent of unsettled.intentsOf({ group, resource, namespace, name })) controller.add(intent);
  }, signal);
  const search = setInterval(() => {
    for (const claim of unsettled.takeDue()) controller.add(claim);
  }, SEARCH_MS);
  signal.addEventListener('abort', () => clearInterval(search));
  metrics.scrape({ unsettledClaims: unsettled.count }, signal);
}
