/** On the leader: what RestoreDetectors watch is followed, and each restore that it shows gets its RestoreWindow. */
import type { Condition, GroupResource, KubeObject } from '../../json/kube-object.ts';
import type { RestoreDetector, RestoreDetectorStatus } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { detectedWindow } from '../../restore/detected-window.ts';
import {
  detectorProblems,
  isTrusted,
  readSource,
  timesOf,
  type RestoreSource,
} from '../../restore/detector.ts';
import { missingAccessMessage } from '../policies/read-access.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type RecordEvent } from '../controller.ts';

/** What came of following a kind. */
export type Followed =
  | { readonly kind: 'following'; readonly objects: readonly KubeObject[] }
  | { readonly kind: 'not-served' }
  | { readonly kind: 'forbidden' }
  /** The first list is still to come. */
  | { readonly kind: 'listing' };

export interface RestoreDetectorsDeps {
  readonly detector: (name: string) => RestoreDetector | undefined;
  /** Begins to watch the kind for this detector, or goes on. */
  readonly follow: (detector: RestoreDetector, signal: AbortSignal) => Promise<Followed>;
  readonly unfollow: (name: string) => void;
  /** Live. */
  readonly windowExists: (name: string, signal: AbortSignal) => Promise<boolean>;
  /** `false`: there is one of that name already. */
  readonly createWindow: (window: RestoreWindow, signal: AbortSignal) => Promise<boolean>;
  readonly writeStatus: (
    detector: RestoreDetector,
    status: RestoreDetectorStatus,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly setCondition: (
    conditions: readonly Condition[],
    next: Omit<Condition, 'lastTransitionTime'>,
    now: Date,
  ) => readonly Condition[];
  readonly record: RecordEvent;
  /** Hexadecimal SHA-256. */
  readonly digest: (text: string) => string;
  readonly now: () => Date;
  readonly log: Log;
}

type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/** How often a kind is looked for that is not served or may not be read, in milliseconds. */
const LOOK_AGAIN_MS = 10_000;
const LISTING_MS = 1_000;

export function createRestoreDetectorsReconciler(deps: RestoreDetectorsDeps): Reconcile {
  const memories = new Map<string, Memory>();
  return async (name, signal) => {
    const detector = deps.detector(name);
    if (detector === undefined) {
      deps.unfollow(name);
      memories.delete(name);
      return GONE;
    }
    const idle = whyIdle(detector);
    if (idle !== undefined) {
      deps.unfollow(name);
      await report(detector, [idle], 0, deps, signal);
      return AWAIT_CHANGE;
    }
    const followed = await deps.follow(detector, signal);
    if (followed.kind !== 'following') {
      await report(detector, [READY, watching(followed, detector)], 0, deps, signal);
      return requeueIn(followed.kind === 'listing' ? LISTING_MS : LOOK_AGAIN_MS, deps.now());
    }
    const sources = followed.objects.map((object) => readSource(detector, object));
    const memory = withoutGone(memories.get(name), sources);
    memories.set(name, memory);
    for (const source of sources) {
      if (isTrusted(detector, source.namespace)) await ensureWindow(detector, source, memory, deps, signal);
      else if (source.activity === 'active') distrust(detector, source, memory, deps);
    }
    const active = sources.filter(
      ({ activity, namespace }) => activity === 'active' && isTrusted(detector, namespace),
    );
    await report(detector, [READY, watching(followed, detector)], active.length, deps, signal);
    return AWAIT_CHANGE;
  };
}

/** What has been done about the sources of a detector, by uid. */
interface Memory {
  /** Their window has been seen to: who deletes a window does not want it back. */
  readonly done: Set<string>;
  /** An Event has said that nobody trusts them. */
  readonly untrusted: Set<string>;
}

function withoutGone(memory: Memory | undefined, sources: readonly RestoreSource[]): Memory {
  const present = new Set(sources.map(({ uid }) => uid));
  const stillThere = (uids: ReadonlySet<string> = new Set()) =>
    new Set([...uids].filter((uid) => present.has(uid)));
  return { done: stillThere(memory?.done), untrusted: stillThere(memory?.untrusted) };
}

function whyIdle(detector: RestoreDetector): ConditionUpdate | undefined {
  const problems = detectorProblems(detector);
  if (problems.length > 0) return condition('Ready', 'False', 'InvalidSpec', problems.join('; '));
  if (detector.spec.namespaces.length > 0) return undefined;
  const message = 'it is disabled: name the namespace of the backup tool in spec.namespaces';
  return condition('Ready', 'False', 'Disabled', message);
}

const READY = condition(
  'Ready',
  'True',
  'Enabled',
  'restores in the trusted namespaces open a RestoreWindow',
);

function watching(followed: Followed, { metadata, spec }: RestoreDetector): ConditionUpdate {
  const { apiGroup: group, resource } = spec.watch;
  const kind: GroupResource = { group, resource };
  switch (followed.kind) {
    case 'following':
      return condition('Watching', 'True', 'Watching', `${resource}.${group} are followed`);
    case 'listing':
      return condition('Watching', 'Unknown', 'Listing', `${resource}.${group} are being listed`);
    case 'not-served':
      return condition(
        'Watching',
        'False',
        'NotServed',
        `the API server does not serve ${resource}.${group}: nothing is restored with it until it does`,
      );
    case 'forbidden':
      return condition('Watching', 'False', 'Forbidden', missingAccessMessage(metadata.name ?? '', [kind]));
  }
}

/** Also for a restore that nobody saw: it was deferred on live evidence, and is to be swept. */
async function ensureWindow(
  detector: RestoreDetector,
  source: RestoreSource,
  { done }: Memory,
  deps: RestoreDetectorsDeps,
  signal: AbortSignal,
): Promise<void> {
  const { activity, uid, startedAt } = source;
  const isOver = activity === 'settling' || activity === 'over';
  if ((activity !== 'active' && !isOver) || done.has(uid)) return;
  const { maxDurationMs } = timesOf(detector);
  const installedAt = new Date(detector.metadata.creationTimestamp ?? 0);
  // What was over before there was a detector was not deferred, nor what is long gone.
  if (startedAt < installedAt || deps.now().getTime() - startedAt.getTime() > maxDurationMs) return;
  const window = detectedWindow(detector, source, deps.digest);
  const { name = '' } = window.metadata;
  if (!(await deps.windowExists(name, signal))) {
    const made = isOver ? { ...window, spec: { ...window.spec, close: true } } : window;
    if (await deps.createWindow(made, signal))
      deps.log.info({ window: name, source: source.name, phase: source.phase }, 'a restore was detected');
  }
  done.add(uid);
}

function distrust(
  detector: RestoreDetector,
  { apiVersion, kind, namespace, name, uid }: RestoreSource,
  { untrusted: told }: Memory,
  { record }: RestoreDetectorsDeps,
): void {
  if (told.has(uid)) return;
  told.add(uid);
  record({
    regarding: { apiVersion, kind, name, uid, ...(namespace === undefined ? {} : { namespace }) },
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
  deps: RestoreDetectorsDeps,
  signal: AbortSignal,
): Promise<void> {
  const before = detector.status?.conditions ?? [];
  const { generation } = detector.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const conditions = updates.reduce(
    (all, next) => deps.setCondition(all, { ...next, ...observed }, deps.now()),
    before,
  );
  if (conditions === before && detector.status?.active === active) return;
  await deps.writeStatus(detector, { ...detector.status, conditions: [...conditions], active }, signal);
}

function condition(
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
): ConditionUpdate {
  return { type, status, reason, message };
}
