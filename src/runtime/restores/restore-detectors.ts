/** On the leader: watches the kinds that RestoreDetectors name, and opens a RestoreWindow for each restore. */
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { keyOf } from '../../json/kube-object.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import { detectedWindow } from '../../restore/detected-window.ts';
import {
  detectorProblems,
  isEnabled,
  isTrusted,
  readSource,
  timesOf,
  type RestoreSource,
} from '../../restore/detector.ts';
import {
  AWAIT_CHANGE,
  GONE,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
} from '../controller.ts';
import { createListeners } from '../listeners.ts';
import { missingAccessMessage } from '../policies/read-access.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import type { Replica } from '../webhook-process.ts';
import { sha256 } from './restore-evidence.ts';
import { createRestoreSources, type Followed, type RestoreSources } from './restore-sources.ts';
import { condition, withConditions, type ConditionUpdate } from './window-status.ts';

/** When to retry a kind that is not served or may not be read, in milliseconds. */
const RETRY_MS = 10_000;
const LISTING_MS = 1_000;

function createRestoreDetectorsReconciler(
  context: LeaderContext,
  detectors: Pick<Store<RestoreDetector>, 'get'>,
  origins: RestoreSources,
): Reconcile {
  const memories = new Map<string, Memory>();
  return async (name, signal) => {
    const detector = detectors.get(name);
    if (detector === undefined) {
      origins.unfollow(name);
      memories.delete(name);
      return GONE;
    }
    const idle = whyIdle(detector);
    if (idle !== undefined) {
      origins.unfollow(name);
      await report(detector, [idle], 0, context, signal);
      return AWAIT_CHANGE;
    }
    const followed = await origins.follow(detector, signal);
    if (followed.kind !== 'following') {
      await report(detector, [READY, watching(followed, detector)], 0, context, signal);
      return requeueIn(followed.kind === 'listing' ? LISTING_MS : RETRY_MS, context.serverClock.now());
    }
    const sources = followed.objects.map((object) => readSource(detector, object));
    const memory = forgetGone(memories.get(name), sources);
    memories.set(name, memory);
    for (const source of sources) {
      if (isTrusted(detector, source.namespace))
        await ensureWindow(detector, source, memory, context, signal);
      else if (source.activity === 'active') reportUntrusted(detector, source, memory, context);
    }
    const active = sources.filter(
      ({ activity, namespace }) => activity === 'active' && isTrusted(detector, namespace),
    );
    await report(detector, [READY, watching(followed, detector)], active.length, context, signal);
    return AWAIT_CHANGE;
  };
}

/** The sources of a detector that need no further action, by uid. */
interface Memory {
  /** Their window exists or existed: a window that a user deletes is not recreated. */
  readonly done: Set<string>;
  /** An Event has reported that their namespace is not trusted. */
  readonly untrusted: Set<string>;
}

function forgetGone(memory: Memory | undefined, sources: readonly RestoreSource[]): Memory {
  const present = new Set(sources.map(({ uid }) => uid));
  const stillThere = (uids: Iterable<string> = []) => new Set([...uids].filter((uid) => present.has(uid)));
  return { done: stillThere(memory?.done), untrusted: stillThere(memory?.untrusted) };
}

function whyIdle(detector: RestoreDetector): ConditionUpdate | undefined {
  const problems = detectorProblems(detector);
  if (problems.length > 0) return condition('Ready', 'False', 'InvalidSpec', problems.join('; '));
  if (detector.spec.namespaces.length > 0) return undefined;
  const message = 'it is disabled: name the namespace of the backup tool in spec.namespaces';
  return condition('Ready', 'False', 'Disabled', message);
}

const ENABLED = 'restores in the trusted namespaces open a RestoreWindow';
const READY = condition('Ready', 'True', 'Enabled', ENABLED);

function watching(followed: Followed, { metadata, spec }: RestoreDetector): ConditionUpdate {
  const { apiGroup: group, resource } = spec.watch;
  const kind = `${resource}.${group}`;
  switch (followed.kind) {
    case 'following':
      return condition('Watching', 'True', 'Watching', `${kind} are followed`);
    case 'listing':
      return condition('Watching', 'Unknown', 'Listing', `${kind} are being listed`);
    case 'not-served': {
      const message = `the API server does not serve ${kind}: nothing is restored with it until it does`;
      return condition('Watching', 'False', 'NotServed', message);
    }
    case 'forbidden': {
      const message = missingAccessMessage(metadata.name ?? '', [{ group, resource }]);
      return condition('Watching', 'False', 'Forbidden', message);
    }
  }
}

/** Also for a restore that is already over: checks were deferred on live evidence, so it needs a sweep. */
async function ensureWindow(
  detector: RestoreDetector,
  source: RestoreSource,
  { done }: Memory,
  { client, serverClock, log }: LeaderContext,
  signal: AbortSignal,
): Promise<void> {
  const { activity, uid, startedAt } = source;
  const isOver = activity === 'settling' || activity === 'over';
  if ((activity !== 'active' && !isOver) || done.has(uid)) return;
  const { maxDurationMs } = timesOf(detector);
  const installedAt = new Date(detector.metadata.creationTimestamp ?? 0);
  // Checks were not deferred for restores that began before the detector existed, or longer ago than a window lasts.
  if (startedAt < installedAt || serverClock.now().getTime() - startedAt.getTime() > maxDurationMs) return;
  const window = detectedWindow(detector, source, sha256);
  const { name = '' } = window.metadata;
  if ((await client.getMetadata(RESTORE_WINDOWS, { name }, { signal })) === undefined) {
    const made = isOver ? { ...window, spec: { ...window.spec, close: true } } : window;
    if (await createIfAbsent(client, made, signal))
      log.info({ window: name, source: source.name, phase: source.phase }, 'detected a restore');
  }
  done.add(uid);
}

function reportUntrusted(
  detector: RestoreDetector,
  { apiVersion, kind, namespace, name, uid }: RestoreSource,
  { untrusted }: Memory,
  { record }: LeaderContext,
): void {
  if (untrusted.has(uid)) return;
  untrusted.add(uid);
  record({
    regarding: { apiVersion, kind, namespace, name, uid },
    type: 'Warning',
    reason: 'Untrusted',
    message:
      `it opens no RestoreWindow: namespace ${namespace ?? ''} is not among those that RestoreDetector ` +
      `${detector.metadata.name ?? ''} trusts`,
  });
}

async function report(
  detector: RestoreDetector,
  updates: readonly ConditionUpdate[],
  active: number,
  { client, serverClock }: LeaderContext,
  signal: AbortSignal,
): Promise<void> {
  const before = detector.status?.conditions ?? [];
  const conditions = withConditions(before, updates, detector.metadata.generation, serverClock.now());
  if (conditions === before && detector.status?.active === active) return;
  const status = { ...detector.status, conditions: [...conditions], active };
  await client.replaceStatus(RESTORE_DETECTORS, { ...detector, status }, { signal });
}

/** Creates the window. False: a window of this name exists. */
export async function createIfAbsent(
  client: Pick<KubeClient, 'create'>,
  window: RestoreWindow,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.create(RESTORE_WINDOWS, window, { signal });
    return true;
  } catch (error) {
    if (isAlreadyExists(error)) return false;
    throw error;
  }
}

export function startDetection(context: LeaderContext, { detectors }: Replica, signal: AbortSignal) {
  const changes = createListeners<[]>();
  const onSourceChange = (detector: string) => {
    controller.add(detector);
    changes.tell();
  };
  const sources = createRestoreSources(context, onSourceChange, signal);
  const reconcile = createRestoreDetectorsReconciler(context, detectors.store, sources);
  const controller = startController(context, { name: 'restore-detectors', reconcile }, signal);
  detectors.onChange(controller.add, signal);
  for (const detector of detectors.store.list()) controller.add(keyOf(detector));
  const detectorOf = ({ spec }: RestoreWindow) => detectors.store.get(spec.source?.detector ?? '');
  return {
    /** Undefined for a window without a source, and while its state is unknown. */
    source: (window: RestoreWindow) => sources.stateFor(window, detectorOf(window)),
    times: (window: RestoreWindow) => {
      const detector = detectorOf(window);
      return detector === undefined || !isEnabled(detector) ? undefined : timesOf(detector);
    },
    /** Called when the source of a window may have changed. */
    onSourceChange: changes.add,
    stopped: controller.stopped,
  };
}
