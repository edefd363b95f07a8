/** On the leader: watches the kinds that RestoreDetectors name, and opens a RestoreWindow for each restore. */
import { isDeepStrictEqual } from 'node:util';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { keyOf, objectKey, type KubeObject } from '../../json/kube-object.ts';
import type { NotReady } from '../../json/conditions.ts';
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
import { createIfAbsent } from './restore-evidence.ts';
import {
  condition,
  observedOf,
  withConditions,
  type ConditionUpdate,
  type Readiness,
} from './window-status.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import { canI } from '../../kube/access.ts';
import type { Resource } from '../../kube/object.ts';
import type { SourceState } from '../../restore/window-plan.ts';
import type { Context } from '../context.ts';
import { isCovered, placesOf, type Namespaces } from '../namespaces.ts';
import { watch, type Watching } from '../watch.ts';

interface DetectionContext extends Pick<LeaderContext, 'record'> {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replaceStatus'>;
  readonly serverClock: Pick<LeaderContext['serverClock'], 'now'>;
  readonly log: Log;
}

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

type Memory = Map<string, SourceMemory>;

interface SourceMemory {
  /** It is over, and its window exists or existed: a window that a user deletes is not recreated. */
  readonly isDone?: boolean;
  /** An Event has reported that its namespace is not trusted. */
  readonly isUntrusted?: boolean;
}

function forgetGone(memory: Memory | undefined, sources: readonly RestoreSource[]): Memory {
  const present = new Set(sources.map(({ uid }) => uid));
  return new Map([...(memory ?? [])].filter(([uid]) => present.has(uid)));
}

interface DetectorState extends Readiness {
  readonly watching: ConditionUpdate;
}

type ConditionStatus = ConditionUpdate['status'];

const alike = (
  [ready, watching]: readonly [ConditionStatus, ConditionStatus],
  reason: string,
  message: string,
  why?: NotReady,
): DetectorState => ({
  ready: condition('Ready', ready, reason, message),
  why,
  watching: condition('Watching', watching, reason, message),
});

function whyIdle(detector: RestoreDetector): DetectorState | undefined {
  const problems = detectorProblems(detector);
  if (problems.length > 0) return alike(['False', 'False'], 'InvalidSpec', problems.join('; '), 'Stalled');
  if (detector.spec.namespaces.length > 0) return undefined;
  // Ready: the shipped detectors trust no namespace, and an installation with them has not failed.
  const message = 'disabled: add the namespace of the backup tool to spec.namespaces';
  return alike(['True', 'False'], 'Disabled', message);
}

const enabled = (watching: ConditionStatus, reason: string, message: string): DetectorState => ({
  ready: condition('Ready', 'True', 'Enabled', 'restores in the trusted namespaces open a RestoreWindow'),
  watching: condition('Watching', watching, reason, message),
});

function watching(followed: Followed, { metadata, spec }: RestoreDetector): DetectorState {
  const { apiGroup: group, resource } = spec.watch;
  const kind = `${resource}.${group}`;
  switch (followed.kind) {
    case 'following': {
      const { outside } = followed;
      if (outside.length === 0) return enabled('True', 'Watching', `${kind} are followed`);
      const message = `--namespaces leaves out ${outside.join(', ')}: restores there open no RestoreWindow`;
      return enabled('False', 'OutsideNamespaces', message);
    }
    case 'not-served': {
      const message = `the API server does not serve ${kind}: nothing is restored with it until it does`;
      return enabled('False', 'NotServed', message);
    }
    case 'listing':
      return alike(['Unknown', 'Unknown'], 'Listing', `${kind} are being listed`, 'Reconciling');
    case 'forbidden': {
      const message = missingAccessMessage(metadata.name ?? '', [{ group, resource }]);
      return alike(['False', 'False'], 'Forbidden', message, 'Reconciling');
    }
  }
}

/** @throws after all sources: one whose window cannot be created does not keep the others from theirs */
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

/** Even for a restore that is already over: checks were deferred on live evidence, so it needs a sweep. */
async function ensureWindow(
  source: RestoreSource,
  memory: Memory,
  { detector, windows, client, serverClock, log, signal }: Task,
): Promise<Date | undefined> {
  const known = windows.list();
  const now = serverClock.now();
  const due = dueWindow(detector, source, now);
  if (due.kind === 'none' || memory.get(source.uid)?.isDone === true) return undefined;
  if (due.kind === 'later') return due.at;
  // The window of an active restore that a user deletes is swept, and another one follows it.
  const isOwn = (window: RestoreWindow) =>
    isWindowOf(window, detector, source) &&
    (due.kind === 'closed' || window.metadata.deletionTimestamp === undefined);
  if (!known.some(isOwn)) {
    const names = new Set(known.map(({ metadata }) => metadata.name));
    const window = detectedWindow(detector, source, now, (taken) => names.has(taken));
    const { name = '' } = window.metadata;
    const live = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal });
    const made = due.kind === 'closed' ? { ...window, spec: { ...window.spec, close: true } } : window;
    const isCreated = live === undefined && (await createIfAbsent(client, made, signal));
    if (isCreated) log.info({ window: name, source: source.name, phase: source.phase }, 'detected a restore');
    // A window that the store does not show yet has this name: the next attempt knows it, and takes another name.
    else if (live === undefined || !isOwn(live)) return new Date(now.getTime() + LISTING_MS);
  }
  // While a source is active, checks are deferred for it even without a window: a window that a user deletes comes back.
  if (due.kind === 'closed') memory.set(source.uid, { ...memory.get(source.uid), isDone: true });
  return undefined;
}

function reportUntrusted(
  { apiVersion, kind, namespace, name, uid }: RestoreSource,
  memory: Memory,
  { detector, record }: Task,
): void {
  if (memory.get(uid)?.isUntrusted === true) return;
  memory.set(uid, { ...memory.get(uid), isUntrusted: true });
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
  state: DetectorState,
  active: number,
  { detector, client, serverClock, signal }: Task,
): Promise<void> {
  const { metadata, status: before } = detector;
  const observed = observedOf(metadata);
  const now = serverClock.now();
  const conditions = [...withConditions(before?.conditions, state, [state.watching], observed, now)];
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
    source: (window: RestoreWindow) => sources.stateFor(window, detectorOf(window)),
    times: (window: RestoreWindow) => {
      const detector = detectorOf(window);
      return detector === undefined || !isEnabled(detector) ? undefined : timesOf(detector);
    },
    onSourceChange: changes.add,
    stopped: controller.stopped,
  };
}

export type Followed =
  | {
      readonly kind: 'following';
      readonly objects: readonly KubeObject[];
      readonly outside: readonly string[];
    }
  | { readonly kind: 'not-served' | 'forbidden' | 'listing' };

export type RestoreSources = ReturnType<typeof createRestoreSources>;

interface Following {
  readonly resource: Resource;
  readonly watched: Watching<KubeObject>;
  /** When each existing source last changed, in milliseconds since 1970. */
  readonly changedAt: Map<string, number>;
  readonly goneSince: Map<string, Date>;
}

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
const outsideNamespaces = (
  { namespaced }: Pick<Resource, 'namespaced'>,
  { spec }: Pick<RestoreDetector, 'spec'>,
  covered: Namespaces,
): readonly string[] =>
  namespaced ? spec.namespaces.filter((one) => one !== '*' && !isCovered(covered, one)) : [];

function isSame(a: Resource, b: Resource): boolean {
  return a.group === b.group && a.version === b.version && a.resource === b.resource;
}
