/** On the leader: watches the kinds that RestoreDetectors name, and opens a RestoreWindow for each restore. */
import { isDeepStrictEqual } from 'node:util';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { keyOf } from '../../json/kube-object.ts';
import { setReady, type NotReady } from '../../json/conditions.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Store } from '../../kube/store.ts';
import type { Log } from '../../log.ts';
import { detectedWindow, dueWindow, isWindowOf } from '../../restore/detected-window.ts';
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
import { createIfAbsent, sha256 } from './restore-evidence.ts';
import { createRestoreSources, type Followed, type RestoreSources } from './restore-sources.ts';
import { condition, withConditions, type ConditionUpdate } from './window-status.ts';
import type { RestoreKinds } from './restore-kinds.ts';

interface DetectionContext extends Pick<LeaderContext, 'record'> {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replaceStatus'>;
  readonly serverClock: Pick<LeaderContext['serverClock'], 'now'>;
  readonly log: Log;
}

/** When to retry a kind that is not served or may not be read, in milliseconds. */
const RETRY_MS = 10_000;
const LISTING_MS = 1_000;

export function createRestoreDetectorsReconciler(
  context: DetectionContext,
  detectors: Pick<Store<RestoreDetector>, 'get'>,
  windows: Pick<Store<RestoreWindow>, 'list'>,
  origins: Pick<RestoreSources, 'follow' | 'unfollow'>,
): Reconcile {
  const memories = new Map<string, Memory>();
  return async (name, signal) => {
    const detector = detectors.get(name);
    if (detector === undefined) {
      origins.unfollow(name);
      memories.delete(name);
      return GONE;
    }
    const task: Task = { ...context, windows, detector, signal };
    const idle = whyIdle(detector);
    if (idle !== undefined) {
      origins.unfollow(name);
      await report(idle, 0, task);
      return AWAIT_CHANGE;
    }
    const followed = await origins.follow(detector, signal);
    if (followed.kind !== 'following') {
      await report(watching(followed, detector), 0, task);
      return requeueIn(followed.kind === 'listing' ? LISTING_MS : RETRY_MS, context.serverClock.now());
    }
    const sources = followed.objects.map((object) => readSource(detector, object));
    const memory = forgetGone(memories.get(name), sources);
    memories.set(name, memory);
    const { trusted = [], others = [] } = Object.groupBy(sources, ({ namespace }) =>
      isTrusted(detector, namespace) ? 'trusted' : 'others',
    );
    const active = trusted.filter(isActive);
    for (const source of others.filter(isActive)) reportUntrusted(source, memory, task);
    try {
      const again = await ensureWindows(trusted, memory, task);
      return again === undefined ? AWAIT_CHANGE : { kind: 'requeue', at: again };
    } finally {
      await report(watching(followed, detector), active.length, task);
    }
  };
}

const isActive = ({ activity }: RestoreSource): boolean => activity === 'active';

interface Task extends DetectionContext {
  readonly windows: Pick<Store<RestoreWindow>, 'list'>;
  readonly detector: RestoreDetector;
  readonly signal: AbortSignal;
}

/** The sources of a detector that need no further action, by uid. */
interface Memory {
  /** They are over, and their window exists or existed: a window that a user deletes is not recreated. */
  readonly done: Set<string>;
  /** An Event has reported that their namespace is not trusted. */
  readonly untrusted: Set<string>;
}

function forgetGone(memory: Memory | undefined, sources: readonly RestoreSource[]): Memory {
  const present = new Set(sources.map(({ uid }) => uid));
  const stillThere = (uids: Iterable<string> = []) => new Set([...uids].filter((uid) => present.has(uid)));
  return { done: stillThere(memory?.done), untrusted: stillThere(memory?.untrusted) };
}

/** The conditions of a detector: whether it is ready, and whether its kind is followed. */
interface DetectorState {
  readonly ready: ConditionUpdate;
  readonly why?: NotReady;
  readonly watching: ConditionUpdate;
}

function whyIdle(detector: RestoreDetector): DetectorState | undefined {
  const problems = detectorProblems(detector);
  if (problems.length > 0) {
    const problem = ['False', 'InvalidSpec', problems.join('; ')] as const;
    return {
      ready: condition('Ready', ...problem),
      why: 'Stalled',
      watching: condition('Watching', ...problem),
    };
  }
  if (detector.spec.namespaces.length > 0) return undefined;
  // Ready: the shipped detectors trust no namespace, and an installation with them has not failed.
  const disabled = [
    'Disabled',
    'it is disabled: name the namespace of the backup tool in spec.namespaces',
  ] as const;
  return {
    ready: condition('Ready', 'True', ...disabled),
    watching: condition('Watching', 'False', ...disabled),
  };
}

const ENABLED = 'restores in the trusted namespaces open a RestoreWindow';

function watching(followed: Followed, detector: RestoreDetector): DetectorState {
  const state = whetherFollowed(followed, detector);
  switch (followed.kind) {
    case 'following':
    case 'not-served': // the detector follows its kind as soon as the backup tool is installed
      return { ready: condition('Ready', 'True', 'Enabled', ENABLED), watching: state };
    case 'listing':
    case 'forbidden':
      return { ready: { ...state, type: 'Ready' }, why: 'Reconciling', watching: state };
  }
}

function whetherFollowed(followed: Followed, { metadata, spec }: RestoreDetector): ConditionUpdate {
  const { apiGroup: group, resource } = spec.watch;
  const kind = `${resource}.${group}`;
  switch (followed.kind) {
    case 'following': {
      const { outside } = followed;
      if (outside.length === 0) return condition('Watching', 'True', 'Watching', `${kind} are followed`);
      const message = `--namespaces leaves out ${outside.join(', ')}: restores there open no RestoreWindow`;
      return condition('Watching', 'False', 'OutsideNamespaces', message);
    }
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

/**
 * Gives each source the window that is due.
 *
 * @returns when to look again
 * @throws after all sources, so that a source whose window cannot be created does not keep the others from theirs
 */
async function ensureWindows(
  sources: readonly RestoreSource[],
  memory: Memory,
  task: Task,
): Promise<Date | undefined> {
  const times: Date[] = [];
  const failures: unknown[] = [];
  for (const source of sources) {
    try {
      const again = await ensureWindow(source, memory, task);
      if (again !== undefined) times.push(again);
    } catch (error) {
      task.signal.throwIfAborted();
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
  return times.toSorted((a, b) => a.getTime() - b.getTime())[0];
}

/** Also for a restore that is already over: checks were deferred on live evidence, so it needs a sweep. */
async function ensureWindow(
  source: RestoreSource,
  { done }: Memory,
  { detector, windows, client, serverClock, log, signal }: Task,
): Promise<Date | undefined> {
  const known = windows.list();
  const now = serverClock.now();
  const due = dueWindow(detector, source, now);
  if (due.kind === 'none' || done.has(source.uid)) return undefined;
  if (due.kind === 'later') return due.at;
  // The window of an active restore that a user deletes is swept, and another one follows it.
  const isOwn = (window: RestoreWindow) =>
    isWindowOf(window, detector, source) &&
    (due.kind === 'closed' || window.metadata.deletionTimestamp === undefined);
  if (!known.some(isOwn)) {
    const names = new Set(known.map(({ metadata }) => metadata.name));
    const window = detectedWindow(detector, source, now, sha256, (taken) => names.has(taken));
    const { name = '' } = window.metadata;
    const live = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal });
    const made = due.kind === 'closed' ? { ...window, spec: { ...window.spec, close: true } } : window;
    const isCreated = live === undefined && (await createIfAbsent(client, made, signal));
    if (isCreated) log.info({ window: name, source: source.name, phase: source.phase }, 'detected a restore');
    // A window that the store does not show yet has this name: the next attempt knows it, and takes another name.
    else if (live === undefined || !isOwn(live)) return new Date(now.getTime() + LISTING_MS);
  }
  // While a source is active, checks are deferred for it even without a window: a window that a user deletes comes back.
  if (due.kind === 'closed') done.add(source.uid);
  return undefined;
}

function reportUntrusted(
  { apiVersion, kind, namespace, name, uid }: RestoreSource,
  { untrusted }: Memory,
  { detector, record }: Task,
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
  { ready, why, watching: followed }: DetectorState,
  active: number,
  { detector, client, serverClock, signal }: Task,
): Promise<void> {
  const { metadata, status: before } = detector;
  const { generation } = metadata;
  const now = serverClock.now();
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const withReady = setReady(before?.conditions, { ...ready, ...observed }, why, now);
  const conditions = [...withConditions(withReady, [followed], generation, now)];
  const status = { ...before, ...observed, conditions, active };
  if (!isDeepStrictEqual(before, status))
    await client.replaceStatus(RESTORE_DETECTORS, { ...detector, status }, { signal });
}

export function startDetection(
  context: LeaderContext,
  { detectors, windows }: RestoreKinds,
  signal: AbortSignal,
) {
  const changes = createListeners<[]>();
  const onSourceChange = (detector: string) => {
    controller.add(detector);
    changes.tell();
  };
  const sources = createRestoreSources(context, onSourceChange, signal);
  const reconcile = createRestoreDetectorsReconciler(context, detectors.store, windows.store, sources);
  const options = { name: 'restore-detectors', objects: detectors, reconcile };
  const controller = startController(context, options, signal);
  windows.onChange((name) => {
    const window = windows.store.get(name);
    if (window !== undefined && window.metadata.deletionTimestamp === undefined) return;
    // It may have been the window of an active source.
    for (const detector of detectors.store.list()) controller.add(keyOf(detector));
  }, signal);
  const detectorOf = ({ spec: { source } }: RestoreWindow) =>
    source?.type === 'Detector' ? detectors.store.get(source.detector ?? '') : undefined;
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
