/** On the leader: until the final sweep, links restored objects as soon as their owners and targets exist. */
import { mayRelinkOwner } from '../../api/owner-kinds.ts';
import { ownerKey } from '../../api/owner-record.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { groupResourceName, keyOf, type KubeObject } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { restoringWindows, sweepMode } from '../../restore/attribution.ts';
import { lostOwners } from '../../restore/owner-links.ts';
import { depthBelow } from '../../restore/owner-order.ts';
import { toRelinkStatus } from '../../restore/report.ts';
import { relinkMode } from '../../restore/window.ts';
import { AWAIT_CHANGE, requeueIn, startController, type LeaderContext } from '../controller.ts';
import { byKind, storedRef } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { keepOnly, watch, type Watching } from '../watch.ts';
import * as relinking from './relink.ts';
import { updateStatus } from './window-status.ts';

const PASS_MS = 2_000;
/** The longest pause between passes that link nothing. */
const REST_MS = 10_000;
/** Backup tools write an object several times, and their own write must not fail with a conflict. In milliseconds. */
const QUIET_MS = 5_000;
/** Objects that a pass tries to link. */
const MOST_TRIED = 256;
const AT_ONCE = 8;
/** More are left to the sweep, because each try reads all of them. An owner counts twice. */
const MOST_AWAITED = 128;

/** What a watch keeps of an object. */
interface Waiting extends KubeObject {
  /** The keys of the owners and targets that it may need. */
  readonly awaits: readonly string[];
  /** In milliseconds, monotonic. */
  readonly seenAt: number;
}

type Kind = Pick<relinking.Governed, 'resource' | 'governing'>;
export type Candidate = Kind & { readonly object: Waiting };

const keyIn = (namespace: string | undefined, ref: Parameters<typeof ownerKey>[0]): string =>
  `${namespace ?? ''} ${ownerKey(ref)}`;

export function toWaiting({ resource, governing }: Kind, object: KubeObject, seenAt: number): Waiting {
  const { metadata = {} } = object;
  const awaits = [
    ...lostOwners(object).filter((ref) => mayRelinkOwner(resource, ref)),
    ...relinking.uidPlaces(governing, object).flatMap(({ ref }) => ref ?? []),
  ].flatMap((ref) => [keyIn(metadata.namespace, ref), keyIn(undefined, ref)]);
  const kept = ['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp', 'labels'] as const;
  const isFew = awaits.length > 0 && awaits.length <= MOST_AWAITED;
  const isWaiting = metadata.deletionTimestamp === undefined && isFew;
  const identity = { ...pick(object, 'apiVersion', 'kind'), seenAt };
  return isWaiting
    ? { ...identity, metadata: pick(metadata, ...kept), awaits }
    : { ...identity, metadata: pick(metadata, 'name', 'namespace', 'resourceVersion'), awaits: [] };
}

/** In levels. A controller that sees a new dependent then finds the owners of its owners linked. */
export function ownersFirst(candidates: readonly Candidate[]): readonly (readonly Candidate[])[] {
  const byKey = new Map(
    candidates.map((one) => {
      const { apiVersion = '', kind = '', metadata: { name = '', namespace } = {} } = one.object;
      return [keyIn(namespace, { apiVersion, kind, name }), one];
    }),
  );
  const depthOf = depthBelow<Candidate>(({ object }) => object.awaits.flatMap((key) => byKey.get(key) ?? []));
  const levels = [...Map.groupBy(candidates, depthOf)];
  return levels.sort(([a], [b]) => a - b).map(([, level]) => level);
}

/** A later pass can change these results, even if the object does not change. */
const RETRIED: readonly RelinkItem['result'][] = ['OwnerMissing', 'OwnerTerminating', 'Failed'];

/** Chooses the objects of each pass: those first that were tried least recently. */
export function createTries(monotonic: () => number) {
  /** By object and version. Infinity: only a change of the object can change the result. */
  const tries = new Map<string, number>();
  const nameOf = ({ object: { metadata } }: Candidate) =>
    `${metadata?.uid ?? ''} ${metadata?.resourceVersion ?? ''}`;
  const lastOf = (one: Candidate) => tries.get(nameOf(one)) ?? 0;
  /** Each report changes its window, and each change of a window starts a pass. */
  let restsUntil = 0;
  return {
    next: (candidates: readonly Candidate[]): readonly Candidate[] => {
      // Objects that change often have many versions in 24 hours.
      const names = new Set(candidates.map(nameOf));
      for (const name of tries.keys()) if (!names.has(name)) tries.delete(name);
      if (monotonic() < restsUntil) return [];
      return candidates
        .filter((one) => one.object.seenAt <= monotonic() - QUIET_MS && lastOf(one) < Infinity)
        .toSorted((a, b) => lastOf(a) - lastOf(b))
        .slice(0, MOST_TRIED);
    },
    tried: (one: Candidate): void => {
      tries.set(nameOf(one), monotonic());
      restsUntil = monotonic() + PASS_MS;
    },
    ended: (one: Candidate): void => void tries.set(nameOf(one), Infinity),
    clear: (): void => tries.clear(),
    size: (): number => tries.size,
  };
}

/** Also after the close, so that the final sweep has little to do. A window that was never open has only the sweep. */
export const isLinking = ({ spec, status }: RestoreWindow): boolean =>
  (status?.phase === 'Open' || status?.phase === 'Settling') &&
  status.openedAt !== undefined &&
  status.lastSweep?.interim !== false &&
  relinkMode(spec) === 'Link';

type Restoring = ReturnType<typeof restoringWindows>;

/** Links only what all windows of the object allow. Only the sweep reports what one of them holds back. */
export const earlyTask = (restoring: Restoring): relinking.RelinkTask => ({
  modeOf: (resource, { metadata = {} }) => {
    const belongsTo = restoring(metadata, resource);
    const own = belongsTo.find(isLinking);
    const found = own && sweepMode(own, belongsTo);
    return found?.mode === 'Link' ? found : { mode: 'Off' };
  },
  isRestored: (made) => restoring(made).length > 0,
});

export function startEarlyLinks(
  context: LeaderContext,
  { windows, detectors, registry }: relinking.RelinkSources,
  { stored, relink }: ReturnType<typeof relinking.createRelinkers>,
  signal: AbortSignal,
) {
  const { client, discovery, config, serverClock, log } = context;
  const { now } = serverClock;
  const kinds = new Map<string, Kind & Pick<Watching<Waiting>, 'stop' | 'store'>>();
  const tries = createTries(() => performance.now());
  const restoringIn = (known: readonly RestoreWindow[]) =>
    restoringWindows(known, detectors.store.list(), config.restoreSettleMs);
  const liveWindows = async (stop: AbortSignal) =>
    (await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal: stop })).items;

  const follow = async (stop: AbortSignal) => {
    const needed = new Set<string>();
    for (const [resource, governing] of byKind(registry.inForce().filter(relinking.mayLose))) {
      const versions = governing.map(({ name, generation }) => `${name} ${generation}`);
      const name = [groupResourceName(resource), resource.version, ...versions].join(' ');
      needed.add(name);
      // A kind that is not served waits for the next pass.
      const kind = kinds.has(name)
        ? undefined
        : await served(discovery, resource, stop).catch(() => undefined);
      if (kind === undefined) continue;
      const options = {
        resource: { ...kind, version: resource.version ?? kind.version },
        transform: (object: Waiting) => toWaiting({ resource, governing }, object, performance.now()),
      };
      kinds.set(name, { resource, governing, ...watch<Waiting>(context, options, signal) });
    }
    keepOnly(kinds, (name) => needed.has(name));
  };

  /** By window. A conflict must not lose them: usually, the window is just being closed. */
  const uncounted = new Map<string | undefined, readonly RelinkItem[]>();
  const linkAll = async (chosen: readonly Candidate[], stop: AbortSignal) => {
    const restoring = restoringIn(await liveWindows(stop));
    const namespaces = await stored.namespaceLabels(stop);
    for (const level of ownersFirst(chosen))
      await mapConcurrent(level, AT_ONCE, async (one) => {
        tries.tried(one);
        try {
          const object = await stored.read(storedRef(one.resource, one.object), stop);
          if (object === undefined) return;
          const governed = { ...one, object, namespaces };
          const items = await relinking.relinkObject(governed, relink, earlyTask(restoring), stop);
          if (!items.some(({ result }) => RETRIED.includes(result))) tries.ended(one);
          const own = restoring(object.metadata ?? {}, one.resource).find(isLinking)?.metadata.name;
          const found = items.filter(({ result }) => result === 'Linked');
          if (found.length > 0) uncounted.set(own, [...(uncounted.get(own) ?? []), ...found]);
        } catch (error) {
          stop.throwIfAborted();
          log.debug({ key: keyOf(one.object), err: error }, 'could not link a restored object');
        }
      });
  };

  /** The counts only inform: a crash before it loses them, not the links. */
  const report = async (stop: AbortSignal) => {
    for (const window of uncounted.size === 0 ? [] : await liveWindows(stop)) {
      const items = uncounted.get(window.metadata.name);
      if (items === undefined || !isLinking(window)) continue;
      const { relink: before } = window.status ?? {};
      const open = before?.items?.filter(({ result }) => result !== 'Linked') ?? [];
      const change = { relink: toRelinkStatus(before, [...open, ...items]) };
      await updateStatus(window, change, [], { client, now }, stop);
      uncounted.delete(window.metadata.name);
      log.info({ window: window.metadata.name, linked: items.length }, 'linked restored objects');
    }
    uncounted.clear(); // of windows that have ended
  };

  let waitMs = PASS_MS;
  const reconcile = async (_key: string, stop: AbortSignal) => {
    const known = windows.store.list();
    if (!known.some(isLinking)) {
      keepOnly(kinds, () => false);
      tries.clear();
      waitMs = PASS_MS;
      return AWAIT_CHANGE;
    }
    await follow(stop);
    const restoring = restoringIn(known);
    const waiting = [...kinds.values()].flatMap(({ store, ...kind }) =>
      store
        .list()
        .filter(
          ({ awaits, metadata = {} }) =>
            awaits.length > 0 && restoring(metadata, kind.resource).some(isLinking),
        )
        .map((object) => ({ ...kind, object })),
    );
    const chosen = tries.next(waiting);
    if (chosen.length > 0) await linkAll(chosen, stop);
    waitMs = uncounted.size > 0 ? PASS_MS : Math.min(REST_MS, 2 * waitMs);
    await report(stop);
    return requeueIn(waitMs, now());
  };
  const options = { name: 'early-links', key: 'all', on: [windows.onChange], reconcile, serverNow: now };
  return startController(context, options, signal);
}
