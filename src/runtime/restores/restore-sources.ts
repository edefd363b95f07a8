/** On the leader: watches objects of backup tools, one kind per RestoreDetector, to derive the state of restores. */
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { objectKey, type KubeObject } from '../../json/kube-object.ts';
import { canI } from '../../kube/access.ts';
import type { Resource } from '../../kube/object.ts';
import { isEnabled, readSource, timesOf } from '../../restore/detector.ts';
import type { SourceState } from '../../restore/window-plan.ts';
import type { Context } from '../context.ts';
import { isCovered, placesOf, type Namespaces } from '../namespaces.ts';
import { watch, type Watching } from '../watch.ts';

export type Followed =
  | {
      readonly kind: 'following';
      readonly objects: readonly KubeObject[];
      /** See {@link outsideNamespaces}. */
      readonly outside: readonly string[];
    }
  /** `listing`: the first list has not arrived yet. */
  | { readonly kind: 'not-served' | 'forbidden' | 'listing' };

export type RestoreSources = ReturnType<typeof createRestoreSources>;

interface Following {
  readonly resource: Resource;
  readonly watched: Watching<KubeObject>;
  /** When each existing source last changed, in milliseconds since 1970. */
  readonly changedAt: Map<string, number>;
  /** Since when the source of a window is missing, by uid. */
  readonly goneSince: Map<string, Date>;
}

/** @param onChange called with the name of the detector when one of its sources changes */
export function createRestoreSources(
  context: Context,
  onChange: (detector: string) => void,
  signal: AbortSignal,
) {
  const { client, discovery } = context;
  const now = context.serverClock.now;
  const followed = new Map<string, Following>();
  const unfollow = (name: string) => {
    followed.get(name)?.watched.stop();
    followed.delete(name);
  };
  const start = (name: string, resource: Resource): Following => {
    const changedAt = new Map<string, number>();
    const noteChange = (key: string) => {
      if (watched.store.get(key) === undefined) changedAt.delete(key);
      else changedAt.set(key, now().getTime());
      onChange(name);
    };
    const watched = watch<KubeObject>(context, { resource, onChange: noteChange }, signal);
    const following: Following = { resource, watched, changedAt, goneSince: new Map() };
    followed.set(name, following);
    return following;
  };
  return {
    unfollow,
    /** Starts or continues to watch the kind of this detector. */
    follow: async (detector: RestoreDetector, waiting: AbortSignal): Promise<Followed> => {
      const { metadata, spec } = detector;
      const { name = '' } = metadata;
      const { apiGroup: group, resource, version } = spec.watch;
      const kind = await discovery.resolve({ group, resource }, waiting);
      if (kind === undefined) return { kind: 'not-served' };
      const allowed = await Promise.all(
        placesOf(kind, context.namespaces).flatMap((namespace) =>
          ['list', 'watch'].map((verb) =>
            canI(client, { verb, group, resource, namespace }, { signal: waiting }),
          ),
        ),
      );
      if (!allowed.every(Boolean)) return { kind: 'forbidden' };
      const wanted = { ...kind, version };
      const current = followed.get(name);
      if (current !== undefined && !isSame(current.resource, wanted)) unfollow(name);
      const { watched } = followed.get(name) ?? start(name, wanted);
      if (!watched.hasSynced()) return { kind: 'listing' };
      const outside = outsideNamespaces(kind, detector, context.namespaces);
      return { kind: 'following', objects: watched.store.list(), outside };
    },
    /** Undefined for a window without a source, and while the state is unknown. */
    stateFor: ({ spec }: RestoreWindow, detector: RestoreDetector | undefined): SourceState | undefined => {
      const { detector: name = '', ref } = spec.source ?? {};
      const following = followed.get(name);
      if (ref === undefined || detector === undefined || following?.watched.hasSynced() !== true)
        return undefined;
      if (!isEnabled(detector)) return undefined; // the next reconcile stops the watch
      const key = objectKey(ref);
      const object = following.watched.store.get(key);
      if (object?.metadata?.uid !== ref.uid) {
        const since = following.goneSince.get(ref.uid) ?? now();
        following.goneSince.set(ref.uid, since);
        return { kind: 'gone', since };
      }
      following.goneSince.delete(ref.uid);
      const { activity, phase, allWritten } = readSource(detector, object);
      const changed = following.changedAt.get(key) ?? 0;
      const idleMs = allWritten ? 0 : timesOf(detector).idleMs;
      return { kind: 'known', activity, phase, quietSince: new Date(changed + idleMs) };
    },
  };
}

/** The namespaces that the detector trusts by name and that `--namespaces` leaves out. */
export const outsideNamespaces = (
  { namespaced }: Pick<Resource, 'namespaced'>,
  { spec }: Pick<RestoreDetector, 'spec'>,
  covered: Namespaces,
): readonly string[] =>
  namespaced ? spec.namespaces.filter((one) => one !== '*' && !isCovered(covered, one)) : [];

function isSame(a: Resource, b: Resource): boolean {
  return a.group === b.group && a.version === b.version && a.resource === b.resource;
}
