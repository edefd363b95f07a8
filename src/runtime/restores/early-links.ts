/** On the leader: until the final sweep, links restored objects as soon as their owners and targets exist. */
import { targetUids } from '../../admission/policy/references/target-uids.ts';
import type { Owners } from '../../admission/policy/world.ts';
import { mayRelinkOwner } from '../../api/owner-kinds.ts';
import { ownerKey } from '../../api/owner-record.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { groupResourceName, type KubeObject, type OwnerReference } from '../../json/kube-object.ts';
import { pick, uniqueBy } from '../../json/json.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { restoringWindows, sweepMode } from '../../restore/attribution.ts';
import { lostOwners } from '../../restore/owner-links.ts';
import { depthBelow } from '../../restore/owner-order.ts';
import { toRelinkStatus } from '../../restore/report.ts';
import { relinkMode } from '../../restore/window.ts';
import { AWAIT_CHANGE, requeueIn, startController, type LeaderContext } from '../controller.ts';
import { byKind, storedRef, type StoredKind, type StoredObjects } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { keepOnly, watch, type Watching } from '../watch.ts';
import {
  type createRelinkers,
  mayLose,
  relinkObject,
  type Governed,
  type Relinkers,
  type RelinkSources,
  type RelinkTask,
} from './relink.ts';
import { updateStatus } from './window-status.ts';

const PASS_MS = 2_000;
/** The longest pause between passes that link nothing. */
const REST_MS = 10_000;
/** Backup tools write an object several times, and a write of their own must not fail with a conflict. In milliseconds. */
const QUIET_MS = 5_000;
/** Limits for one pass. */
const MOST_LOOKUPS = 256;
const MOST_LINKS = 512;
const AT_ONCE = 8;

/** An owner or a target: what the object needs to be linked. */
interface Awaited {
  readonly ref: Pick<OwnerReference, 'apiVersion' | 'kind' | 'name'>;
  readonly namespace: string | undefined;
}

/** What a watch keeps of an object. */
export interface Waiting extends KubeObject {
  readonly awaits: readonly Awaited[];
  /** In milliseconds, monotonic. */
  readonly seenAt: number;
}

export type Candidate = Pick<Governed, 'governing'> & {
  readonly resource: StoredKind;
  readonly object: Waiting;
};

const awaitedKey = ({ ref, namespace = '' }: Awaited): string => `${namespace} ${ownerKey(ref)}`;

export function toWaiting(
  { resource, governing }: Omit<Candidate, 'object'>,
  object: KubeObject,
  seenAt: number,
): Waiting {
  const { metadata = {} } = object;
  const owners = lostOwners(object).filter((ref) => mayRelinkOwner(resource, ref));
  const targets = targetUids(governing, object).map(({ reference, target: { group, name, namespace } }) => ({
    // Any version: the kind is looked up in its group.
    ref: { apiVersion: group === '' ? 'v1' : `${group}/v1`, kind: reference.targetKind, name },
    namespace,
  }));
  const awaits = [...owners.map((ref) => ({ ref, namespace: metadata.namespace })), ...targets];
  const isWaiting = metadata.deletionTimestamp === undefined && awaits.length > 0;
  const kept = isWaiting ? (['uid', 'creationTimestamp', 'labels'] as const) : [];
  return {
    ...pick(object, 'apiVersion', 'kind'),
    metadata: pick(metadata, 'name', 'namespace', 'resourceVersion', ...kept),
    awaits: isWaiting ? awaits : [],
    seenAt,
  };
}

export interface EarlyWorld {
  readonly windows: () => readonly RestoreWindow[];
  readonly liveWindows: (signal: AbortSignal) => Promise<readonly RestoreWindow[]>;
  readonly restoring: (windows: readonly RestoreWindow[]) => ReturnType<typeof restoringWindows>;
  /** What the watches know. Without windows, it ends them. */
  readonly candidates: (isNeeded: boolean, signal: AbortSignal) => Promise<readonly Candidate[]>;
  readonly owners: Pick<Owners, 'read'>;
  readonly stored: Pick<StoredObjects, 'read' | 'namespaceLabels'>;
  readonly relink: Relinkers;
  readonly report: (
    window: RestoreWindow,
    linked: readonly RelinkItem[],
    signal: AbortSignal,
  ) => Promise<void>;
  readonly monotonic: () => number;
}

/** Also after the close, so that the final sweep has little to do. A window that was never open has only the sweep. */
const isLinking = ({ spec, status }: RestoreWindow): boolean =>
  (status?.phase === 'Open' || status?.phase === 'Settling') &&
  status.openedAt !== undefined &&
  status.lastSweep?.interim !== false &&
  relinkMode(spec) === 'Link';

interface Attempt {
  /** The object and the uids that were tried. */
  readonly signature: string;
  readonly isFinal: boolean;
}

/** A later pass can change these results, even if the object does not change. */
const RETRIED: readonly RelinkItem['result'][] = ['OwnerMissing', 'OwnerTerminating', 'Failed'];

/** One pass. `idle`: no window links. */
export function createEarlyLinks(world: EarlyWorld) {
  const attempts = new Map<string, Attempt>();
  const unreported = new Map<string, readonly RelinkItem[]>();
  let lookedUp = new Map<string, number>();
  let passes = 0;

  const versionOf = ({ object }: Candidate) =>
    `${object.metadata?.uid ?? ''} ${object.metadata?.resourceVersion ?? ''}`;
  const attemptOf = ({ object }: Candidate) => attempts.get(object.metadata?.uid ?? '');

  const due = (candidates: readonly Candidate[]): readonly Candidate[] => {
    const restoring = world.restoring(world.windows());
    const quietSince = world.monotonic() - QUIET_MS;
    return candidates.filter((one) => {
      const { object, resource } = one;
      if (object.awaits.length === 0 || object.seenAt > quietSince) return false;
      const attempt = attemptOf(one);
      if (attempt?.isFinal === true && attempt.signature.startsWith(`${versionOf(one)} `)) return false;
      return restoring(object.metadata ?? {}, resource).some(isLinking);
    });
  };

  /** Those that were looked up least recently. A failed read counts as missing until the next pass. */
  const lookUp = async (waiting: readonly Candidate[], signal: AbortSignal) => {
    const wanted = uniqueBy(
      waiting.flatMap(({ object }) => object.awaits),
      awaitedKey,
    );
    lookedUp = new Map(wanted.map(awaitedKey).map((key) => [key, lookedUp.get(key) ?? 0]));
    const passOf = (one: Awaited) => lookedUp.get(awaitedKey(one)) ?? 0;
    const next = wanted.toSorted((a, b) => passOf(a) - passOf(b)).slice(0, MOST_LOOKUPS);
    const found = await mapConcurrent(next, AT_ONCE, async (one) => {
      lookedUp.set(awaitedKey(one), passes);
      const live = await world.owners.read(one.ref, one.namespace, signal).catch(() => undefined);
      signal.throwIfAborted();
      return [awaitedKey(one), live?.uid] as const;
    });
    return new Map(found.flatMap(([key, uid]) => (uid === undefined ? [] : [[key, uid] as const])));
  };

  const link = async (ready: ReadonlyMap<Candidate, string>, signal: AbortSignal): Promise<boolean> => {
    const restoring = world.restoring(await world.liveWindows(signal));
    const namespaces = await world.stored.namespaceLabels(signal);
    const task: RelinkTask = {
      modeOf: (resource, object) => {
        const belongsTo = restoring(object.metadata ?? {}, resource);
        const own = belongsTo.find(isLinking);
        // Only the sweep reports what another window holds back.
        return own !== undefined && sweepMode(own, belongsTo).mode === 'Link'
          ? { mode: 'Link' }
          : { mode: 'Off' };
      },
      isRestored: (made) => restoring(made).length > 0,
    };
    let hasLinked = false;
    for (const level of ownersFirst([...ready.keys()]))
      await mapConcurrent(level, AT_ONCE, async (one) => {
        const object = await world.stored.read(storedRef(one.resource, one.object), signal);
        if (object === undefined) return;
        const items = await relinkObject({ ...one, object, namespaces }, world.relink, task, signal);
        const isFinal = !items.some(({ result }) => RETRIED.includes(result));
        const signature = `${versionOf(one)} ${ready.get(one) ?? ''}`;
        attempts.set(one.object.metadata?.uid ?? '', { signature, isFinal });
        const linked = items.filter(({ result }) => result === 'Linked');
        const name = restoring(object.metadata ?? {}, one.resource).find(isLinking)?.metadata.name ?? '';
        if (linked.length > 0) unreported.set(name, [...(unreported.get(name) ?? []), ...linked]);
        hasLinked ||= linked.length > 0;
      });
    return hasLinked;
  };

  const reportAll = async (signal: AbortSignal): Promise<void> => {
    if (unreported.size === 0) return;
    for (const window of await world.liveWindows(signal)) {
      const { name = '' } = window.metadata;
      const linked = unreported.get(name);
      if (linked !== undefined && isLinking(window)) await world.report(window, linked, signal);
      unreported.delete(name);
    }
    unreported.clear();
  };

  return async (signal: AbortSignal): Promise<'idle' | 'linked' | 'waiting'> => {
    passes += 1;
    const isNeeded = world.windows().some(isLinking);
    const waiting = due(await world.candidates(isNeeded, signal));
    if (!isNeeded) {
      attempts.clear();
      return 'idle';
    }
    const uids = await lookUp(waiting, signal);
    const ready = new Map<Candidate, string>();
    for (const one of waiting) {
      const found = one.object.awaits.flatMap((awaited) => uids.get(awaitedKey(awaited)) ?? []).join(' ');
      const isTried = attemptOf(one)?.signature === `${versionOf(one)} ${found}`;
      if (found !== '' && !isTried) ready.set(one, found);
    }
    const hasLinked = ready.size > 0 && (await link(ready, signal));
    await reportAll(signal);
    return hasLinked ? 'linked' : 'waiting';
  };
}

/** The first of them, in levels. A controller that sees a new dependent then finds the owners of its owners linked. */
export function ownersFirst(ready: readonly Candidate[]): readonly (readonly Candidate[])[] {
  const byKey = new Map(
    ready.map((one) => {
      const { apiVersion = '', kind = '', metadata: { name = '', namespace } = {} } = one.object;
      return [awaitedKey({ ref: { apiVersion, kind, name }, namespace }), one] as const;
    }),
  );
  const depthOf = depthBelow<Candidate>(({ object: { awaits } }) =>
    awaits.flatMap((one) => {
      const owner = byKey.get(awaitedKey(one)) ?? byKey.get(awaitedKey({ ...one, namespace: undefined }));
      return owner ?? [];
    }),
  );
  const first = ready.toSorted((a, b) => depthOf(a) - depthOf(b)).slice(0, MOST_LINKS);
  return [...Map.groupBy(first, depthOf).values()];
}

interface Followed extends Omit<Candidate, 'object'>, Pick<Watching<Waiting>, 'stop' | 'store'> {}

export function startEarlyLinks(
  context: LeaderContext,
  sources: RelinkSources,
  { stored, relink }: ReturnType<typeof createRelinkers>,
  signal: AbortSignal,
) {
  const { client, discovery, config, serverClock, log } = context;
  const { now } = serverClock;
  const { windows, detectors, registry, world } = sources;
  const followed = new Map<string, Followed>();
  const follow = async (stop: AbortSignal) => {
    const needed = new Set<string>();
    for (const [resource, governing] of byKind(registry.inForce().filter(mayLose))) {
      const versions = governing.map(({ name, generation }) => `${name} ${generation}`);
      const name = [groupResourceName(resource), resource.version, ...versions].join(' ');
      needed.add(name);
      if (followed.has(name)) continue;
      // A kind that is not served waits for the next pass.
      const kind = await served(discovery, resource, stop).catch(() => undefined);
      if (kind === undefined) continue;
      const parts = { resource, governing };
      const options = {
        resource: { ...kind, version: resource.version ?? kind.version },
        transform: (object: Waiting) => toWaiting(parts, object, performance.now()),
      };
      followed.set(name, { ...parts, ...watch<Waiting>(context, options, signal) });
    }
    keepOnly(followed, (name) => needed.has(name));
  };
  const pass = createEarlyLinks({
    windows: windows.store.list,
    liveWindows: async (stop) =>
      (await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal: stop })).items,
    restoring: (known) => restoringWindows(known, detectors.store.list(), config.restoreSettleMs),
    candidates: async (isNeeded, stop) => {
      if (isNeeded) await follow(stop);
      else keepOnly(followed, () => false);
      return [...followed.values()].flatMap(({ resource, governing, store }) =>
        store.list().map((object) => ({ resource, governing, object })),
      );
    },
    owners: world.owners,
    stored,
    relink,
    report: async (window, linked, stop) => {
      const { relink: before } = window.status ?? {};
      const open = before?.items?.filter(({ result }) => result !== 'Linked') ?? [];
      const change = { relink: toRelinkStatus(before, [...open, ...linked]) };
      await updateStatus(window, change, [], { client, now }, stop);
      log.info({ window: window.metadata.name, linked: linked.length }, 'linked restored objects');
    },
    monotonic: () => performance.now(),
  });
  let waitMs = PASS_MS;
  const reconcile = async (_key: string, stop: AbortSignal) => {
    const result = await pass(stop);
    waitMs = result === 'waiting' ? Math.min(REST_MS, 2 * waitMs) : PASS_MS;
    return result === 'idle' ? AWAIT_CHANGE : requeueIn(waitMs, now());
  };
  const on = [windows.onChange];
  const options = { name: 'early-links', key: 'all', on, reconcile, serverNow: now };
  return startController(context, options, signal);
}
