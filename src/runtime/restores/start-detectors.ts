/** Leader: the restores that detectors see. */
import { createRestoreDetectorsReconciler, type Followed } from './restore-detectors.ts';
import { createListeners, type Listeners } from '../listeners.ts';
import { type RecordEvent, startController } from '../controller.ts';
import { keyOf, type KubeObject, objectKey } from '../../json/kube-object.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { canI } from '../../kube/access.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import type { Resource } from '../../kube/object.ts';
import { isEnabled, readSource, timesOf, type DetectorTimes } from '../../restore/detector.ts';
import type { SourceState } from '../../restore/window-plan.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { sha256 } from './restore-evidence.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { watch, type Watched } from '../watch.ts';

export interface Detection {
  /** Undefined for a window without a source, and while nobody knows. */
  readonly source: (window: RestoreWindow) => SourceState | undefined;
  readonly times: (window: RestoreWindow) => DetectorTimes | undefined;
  /** Called when the source of a window may have changed. */
  readonly onSourceChange: Listeners<[]>['add'];
  readonly stopped: Promise<void>;
}

interface Following {
  readonly resource: Resource;
  readonly watched: Watched<KubeObject>;
  /** When each source that is there was last seen to change, in milliseconds since 1970. */
  readonly changedAt: Map<string, number>;
  /** Since when the source of a window is missed, by uid. */
  readonly goneSince: Map<string, Date>;
  readonly stop: () => void;
}

export function startDetection(
  context: Context & { readonly client: KubeClient },
  { detectors, onDetectorChange }: ReplicaParts,
  record: RecordEvent,
  signal: AbortSignal,
): Detection {
  const { client, serverClock, log } = context;
  const now = () => serverClock.now();
  const followed = new Map<string, Following>();
  const changes = createListeners<[]>();
  const unfollow = (name: string) => {
    followed.get(name)?.stop();
    followed.delete(name);
  };
  const controller = startController(
    context,
    {
      name: 'restore-detectors',
      reconcile: createRestoreDetectorsReconciler({
        detector: (name) => detectors.store.get(name),
        follow,
        unfollow,
        windowExists: async (name, waiting) =>
          (await client.getMetadata(RESTORE_WINDOWS, { name }, { signal: waiting })) !== undefined,
        createWindow: async (window, waiting) => {
          try {
            await client.create(RESTORE_WINDOWS, window, { signal: waiting });
            return true;
          } catch (error) {
            if (isAlreadyExists(error)) return false;
            throw error;
          }
        },
        writeStatus: (detector, status, waiting) =>
          client.replaceStatus(RESTORE_DETECTORS, { ...detector, status }, { signal: waiting }),
        setCondition,
        record,
        digest: sha256,
        now,
        log,
      }),
    },
    signal,
  );
  onDetectorChange(controller.add, signal);
  for (const detector of detectors.store.list()) controller.add(keyOf(detector));

  async function follow(detector: RestoreDetector, waiting: AbortSignal): Promise<Followed> {
    const name = detector.metadata.name ?? '';
    const { apiGroup: group, resource, version } = detector.spec.watch;
    const kind = await context.discovery.resolve({ group, resource }, waiting);
    if (kind === undefined) return { kind: 'not-served' };
    const allowed = await Promise.all(
      ['list', 'watch'].map((verb) => canI(client, { verb, group, resource }, { signal: waiting })),
    );
    if (!allowed.every(Boolean)) return { kind: 'forbidden' };
    const wanted = { ...kind, version };
    const current = followed.get(name);
    if (current !== undefined && !isSame(current.resource, wanted)) unfollow(name);
    const following = followed.get(name) ?? start(name, wanted);
    if (!following.watched.hasSynced()) return { kind: 'listing' };
    return { kind: 'following', objects: following.watched.store.list() };
  }

  function start(name: string, resource: Resource): Following {
    const own = new AbortController();
    const changedAt = new Map<string, number>();
    const onChange = (key: string) => {
      if (watched.store.get(key) === undefined) changedAt.delete(key);
      else changedAt.set(key, now().getTime());
      controller.add(name);
      changes.tell();
    };
    const watched = watch<KubeObject>(context, { resource, onChange }, AbortSignal.any([signal, own.signal]));
    const following: Following = {
      resource,
      watched,
      changedAt,
      goneSince: new Map(),
      stop: () => {
        own.abort();
      },
    };
    followed.set(name, following);
    return following;
  }

  const sourceOf = (window: RestoreWindow): SourceState | undefined => {
    const { detector: name = '', ref } = window.spec.source ?? {};
    const detector = detectors.store.get(name);
    const following = followed.get(name);
    if (ref === undefined || detector === undefined || following?.watched.hasSynced() !== true)
      return undefined;
    if (!isEnabled(detector)) return undefined; // and it will be unfollowed
    const key = objectKey(ref);
    const object = following.watched.store.get(key);
    if (object?.metadata?.uid !== ref.uid) {
      const since = following.goneSince.get(ref.uid) ?? now();
      following.goneSince.set(ref.uid, since);
      return { kind: 'gone', since };
    }
    const { activity, phase, allWritten } = readSource(detector, object);
    const changed = following.changedAt.get(key) ?? 0;
    const idleMs = allWritten ? 0 : timesOf(detector).idleMs;
    return { kind: 'known', activity, phase, quietSince: new Date(changed + idleMs) };
  };

  return {
    source: sourceOf,
    times: ({ spec }) => {
      const detector = detectors.store.get(spec.source?.detector ?? '');
      return detector === undefined || !isEnabled(detector) ? undefined : timesOf(detector);
    },
    onSourceChange: changes.add,
    stopped: controller.stopped,
  };
}

function isSame(a: Resource, b: Resource): boolean {
  return a.group === b.group && a.version === b.version && a.resource === b.resource;
}
