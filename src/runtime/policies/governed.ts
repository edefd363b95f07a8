/** Facts about governed objects that decide other requests: which targets and which unique values they hold. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import {
  needsSummary,
  summaryKey,
  summarise,
  type GovernedSummary,
} from '../../admission/policy/governed-summary.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import type { GovernedIndex } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  refOf,
  type GroupResource,
  type ObjectRef,
  type KubeObject,
} from '../../json/kube-object.ts';
import { uniqueBy, pick } from '../../json/json.ts';
import { createListeners } from '../listeners.ts';
import { governed } from './policy-kinds.ts';
import type { Change } from '../../kube/watch.ts';
import type { Resource } from '../../kube/object.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { watch, type WatchContext } from '../watch.ts';
import { versionAmong } from './world.ts';

export type Governed = ReturnType<typeof createGoverned>;

/** Watches begin after this time without a new policy, in milliseconds: at start, policies arrive one by one. */
const QUIET_MS = 50;
/** Retry interval while a kind is not served or discovery fails, in milliseconds. No watch reports the recovery. */
const RETRY_MS = 5_000;
const REPLAN_MS = 10 * 60_000;

/** The watches of a kind in one version: `next` replaces `current` once it has listed. */
interface Followed {
  readonly current: Follower | undefined;
  readonly next: Follower | undefined;
}

type Plan = Awaited<ReturnType<typeof planFor>>;

export function createGoverned(
  context: WatchContext,
  discovery: Pick<Discovery, 'resolve'>,
  ownNamespace: string,
  signal: AbortSignal,
) {
  const followed = new Map<string, Followed>();
  const listeners = createListeners<[kind: GroupResource, change: Change<GovernedObject>]>();
  const listed = createListeners<[]>();
  let wanted: readonly CompiledPolicy[] = [];
  let plan: Plan | undefined = { kinds: new Map(), byNeed: new Map(), unknown: [], isComplete: true };
  let planning = new AbortController();

  const applyPlan = ({ kinds }: Plan): void => {
    for (const [key, { current, next }] of followed) {
      if (kinds.has(key)) continue;
      current?.stop();
      next?.stop();
      followed.delete(key);
    }
    for (const [key, { resource, policies }] of kinds) {
      const { current, next } = followed.get(key) ?? { current: undefined, next: undefined };
      const needs = new Set(policies.map(summaryKey));
      if (isSame((next ?? current)?.needs, needs)) continue;
      next?.stop();
      if (isSame(current?.needs, needs)) followed.set(key, { current, next: undefined });
      else begin(key, resource, policies, current);
    }
  };

  const begin = (
    key: string,
    resource: Resource,
    policies: readonly CompiledPolicy[],
    current: Follower | undefined,
  ): void => {
    const next = startFollower(context, resource, policies, ownNamespace, listeners.tell, signal);
    followed.set(key, { current, next });
    const takeOver = () => {
      if (followed.get(key)?.next !== next) return;
      current?.stop();
      followed.set(key, { current: next, next: undefined });
      listed.tell();
    };
    next.listed.then(takeOver, () => undefined);
  };

  const settle = async (current: AbortSignal): Promise<void> => {
    await sleep(QUIET_MS, undefined, { signal: current });
    for (;;) {
      const made = await planFor(wanted, (kind) => discovery.resolve(kind, current));
      current.throwIfAborted();
      // An aggregated API that is down must not stop the watches of its kinds, or keep other kinds from being watched.
      const before = plan?.unknown.map(keyOf);
      if (before === undefined || made.unknown.every((one) => before.includes(keyOf(one)))) {
        plan = made;
        applyPlan(made);
      }
      await sleep(made.isComplete ? REPLAN_MS : RETRY_MS, undefined, { signal: current });
    }
  };

  /** @param patient whether to wait for lists beyond their timeout; otherwise these kinds are left out */
  const covering = (policy: CompiledPolicy, patient: boolean): readonly Follower[] | undefined => {
    const need = summaryKey(policy);
    if (plan?.unknown.some((one) => one.need === need) === true) return undefined;
    const keys =
      plan?.byNeed.get(need) ??
      [...followed].flatMap(([key, { current }]) => (current?.needs.has(need) === true ? [key] : []));
    if (keys.length === 0 && plan?.byNeed.has(need) !== true) return undefined;
    const followers = keys.map((key) => {
      const { current, next } = followed.get(key) ?? {};
      if (current?.needs.has(need) === true) return current;
      return patient || next?.watched.isListing() === true ? undefined : 'given-up';
    });
    if (followers.includes(undefined)) return undefined;
    return followers.filter((one) => one !== undefined && one !== 'given-up');
  };

  return {
    follow: (policies: readonly CompiledPolicy[]): void => {
      const next = policies.filter(needsSummary);
      if (isSame(new Set(wanted.map(summaryKey)), new Set(next.map(summaryKey)))) return;
      wanted = next;
      plan = undefined;
      planning.abort();
      planning = new AbortController();
      settle(AbortSignal.any([signal, planning.signal])).catch(() => undefined); // other policies, or the process ends
    },
    referrers: (target, policies) => {
      const covered = policies.map((policy) => covering(policy, true));
      if (covered.includes(undefined)) return undefined;
      const refs = covered
        .flatMap((one) => one ?? [])
        .flatMap((one) => one.refs('targets', targetKey(target)));
      return uniqueBy(refs, targetKey);
    },
    holders: (claim, policy) =>
      covering(policy, false)?.flatMap((follower) => follower.refs('claims', claim)),
    stores: (policy: CompiledPolicy) =>
      covering(policy, true)?.map(({ resource, watched: { store } }) => ({ resource, store })),
    holdersOf: (claim: string): readonly ObjectRef[] => {
      const refs = [...followed.values()].flatMap(({ current }) => current?.refs('claims', claim) ?? []);
      return uniqueBy(refs, targetKey);
    },
    objects: function* (): Iterable<{ readonly ref: ObjectRef; readonly object: GovernedObject }> {
      for (const { current } of followed.values()) {
        if (current === undefined) continue;
        for (const object of current.watched.store.list())
          yield { ref: refOf(current.resource, object), object };
      }
    },
    /** The kinds whose objects are not known, or not all; undefined: it is not known yet what policies govern. */
    unlisted: (): ReadonlySet<string> | undefined =>
      plan &&
      new Set([
        ...plan.unknown.map(({ kind }) => groupResourceName(kind)),
        ...[...followed.values()].flatMap(({ next }) => (next ? [groupResourceName(next.resource)] : [])),
      ]),
    unsynced: (): readonly string[] => [
      ...(plan === undefined ? ['what policies govern'] : []),
      ...[...followed.values()].flatMap(({ next }) =>
        next?.watched.isListing() === true ? [groupResourceName(next.resource)] : [],
      ),
    ],
    onChange: listeners.add,
    onListed: listed.add,
  } satisfies GovernedIndex & Record<string, unknown>;
}

interface Unknown {
  readonly need: string;
  readonly kind: GroupResource;
}

const keyOf = ({ need, kind }: Unknown): string => `${groupResourceName(kind)} ${need}`;

async function planFor(
  policies: readonly CompiledPolicy[],
  resolve: (kind: GroupResource) => Promise<Resource | undefined>,
) {
  const wanted = policies.flatMap((policy) => governed(policy).map((kind) => ({ kind, policy })));
  /** The kinds whose discovery failed, and the needs of their policies. */
  const unknown: Unknown[] = [];
  const served = await Promise.all(
    wanted.map(async ({ kind, policy }) => {
      const resource = await resolve(kind).catch(() => void unknown.push({ need: summaryKey(policy), kind }));
      if (resource === undefined) return undefined;
      const version = versionAmong(policy.match.apiVersions, resource.version);
      return { policy, resource: { ...resource, version }, key: `${groupResourceName(kind)} ${version}` };
    }),
  );
  const found = served.filter((one) => one !== undefined);
  const kinds = new Map<string, { resource: Resource; policies: CompiledPolicy[] }>();
  const byNeed = new Map<string, string[]>(policies.map((policy) => [summaryKey(policy), []]));
  for (const { key, resource, policy } of found) {
    const kind = kinds.get(key) ?? { resource, policies: [] };
    kind.policies.push(policy);
    kinds.set(key, kind);
    byNeed.get(summaryKey(policy))?.push(key);
  }
  return { kinds, byNeed, unknown, isComplete: found.length === served.length };
}

function isSame(a: ReadonlySet<string> | undefined, b: ReadonlySet<string>): boolean {
  return a?.size === b.size && [...b].every((one) => a.has(one));
}

export interface GovernedObject extends KubeObject, Partial<GovernedSummary> {}

type Follower = ReturnType<typeof startFollower>;

const INDEXES = {
  targets: ({ targets = [] }: GovernedObject) => targets,
  claims: ({ claims = [] }: GovernedObject) => claims,
};

/** One watch of a governed kind. It keeps only a summary of each object. */
function startFollower(
  context: WatchContext,
  resource: Resource,
  policies: readonly CompiledPolicy[],
  ownNamespace: string,
  onChange: (kind: GroupResource, change: Change<GovernedObject>) => void,
  signal: AbortSignal,
) {
  const own = new AbortController();
  const ended = AbortSignal.any([signal, own.signal]);
  const watched = watch<GovernedObject>(
    context,
    {
      resource,
      indexes: INDEXES,
      transform: (object) => toGoverned(policies, resource, object, ownNamespace),
      onChange: (_key, change) => onChange(resource, change),
    },
    ended,
  );
  return {
    resource,
    needs: new Set(policies.map(summaryKey)),
    watched,
    /** Rejects at the end, so that nothing keeps a follower that was replaced before its first list. */
    listed: watched.whenSynced(ended),
    stop: () => own.abort(new Error('another watch replaces this one')),
    refs: (index: keyof typeof INDEXES, value: string) =>
      watched.store.byIndex(index, value).map((object) => refOf(resource, object)),
  };
}

const NOTHING: GovernedSummary = { targets: [], claims: [] };

function toGoverned(
  policies: readonly CompiledPolicy[],
  resource: Resource,
  object: GovernedObject,
  ownNamespace: string,
): GovernedObject {
  const metadata = pick(object.metadata ?? {}, 'name', 'namespace', 'uid', 'resourceVersion');
  return {
    metadata,
    // The webhooks exempt Gatehouse's own namespace.
    ...(metadata.namespace === ownNamespace ? NOTHING : summarise(policies, resource, object)),
  };
}
