/** On the leader: opens and closes RestoreWindows, sweeps after them, and reports in their status. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import type { RestoreWindow, Violation } from '../../api/restore-window.ts';
import { keyOf } from '../../json/kube-object.ts';
import { concernsReport } from '../../restore/report.ts';
import type { Store } from '../../kube/store.ts';
import { createAttribution, type SweptViolation, spanOf } from '../../restore/attribution.ts';
import { hasFinalReport, withHold, type CloseReason } from '../../restore/window.ts';
import { planWindow, type SourceState, type SweepTimes } from '../../restore/window-plan.ts';
import {
  AWAIT_CHANGE,
  GONE,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
} from '../controller.ts';
import { storedObjects, type StoredObjects } from '../policies/stored-objects.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { startQuiesce } from './quiesce/quiesce.ts';
import { startEarlyLinks } from './early-links.ts';
import { createRelinkers, createRelinkOwners, type RelinkOwners, type RelinkSources } from './relink.ts';
import { startDetection } from './restore-detectors.ts';
import { createSharedSweep, traceSweeps, createSweep, type Sweep, type SweepOptions } from './sweep.ts';
import { isCreatedSince } from './sweep-checks.ts';
import {
  followSweep,
  announce,
  condition,
  reportSweep,
  updateStatus,
  type ConditionUpdate,
  type RestoreWriter,
} from './window-status.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { Targets } from '../policies/world.ts';

export interface RestoreWindowsOptions extends RestoreWriter {
  readonly windows: Pick<Store<RestoreWindow>, 'get' | 'list'>;
  readonly stored: Pick<StoredObjects, 'count'>;
  /** The last change of each window whose report does not cover it yet: another one for each change. */
  readonly changes: Map<string, object>;
  readonly source: (window: RestoreWindow) => SourceState | undefined;
  readonly sweep: Sweep;
  readonly violationsOf: (window: RestoreWindow, all: readonly SweptViolation[]) => readonly Violation[];
  readonly relink?: RelinkOwners;
  readonly timesOf: (window: RestoreWindow) => SweepTimes;
}

export function createRestoreWindowsReconciler(options: RestoreWindowsOptions): Reconcile {
  const { windows, changes, source, timesOf, relink, now } = options;
  const sweep = createSharedSweep(options.sweep, now);
  return async (name, signal) => {
    const window = windows.get(name);
    if (window === undefined) {
      changes.delete(name);
      return GONE;
    }
    const time = now();
    const change = changes.get(name);
    const seen = { changed: change !== undefined, source: source(window) };
    const times = timesOf(window);
    const plan = planWindow(window, time, seen, times);
    switch (plan.kind) {
      case 'done':
        return AWAIT_CHANGE;
      case 'hold':
      case 'release':
        await options.client.replace(RESTORE_WINDOWS, withHold(window, plan.kind === 'hold'), { signal });
        return AWAIT_CHANGE;
      case 'wait':
        return { kind: 'requeue', at: plan.until };
      case 'refuse': {
        const refused = condition('Open', 'False', 'InvalidSpec', plan.problems.join('; '));
        await updateStatus(window, { phase: 'Refused' }, [refused], options, signal);
        return AWAIT_CHANGE;
      }
      case 'open':
        await open(window, time, seen.source, options, signal);
        return { kind: 'requeue', at: plan.until };
      case 'close':
        await close(window, plan, options, signal);
        return AWAIT_CHANGE; // the written status arrives as a change
      case 'sweep': {
        const progress = followSweep(window, options);
        const wanted = sweepOptionsOf(window, windows.list(), plan.interim, time);
        const swept = await sweep(wanted, plan.notBefore, signal, progress.onProgress);
        if (swept.kind === 'later') return { kind: 'requeue', at: swept.at };
        const relinked = await relink?.(window, signal);
        const since = beganAt(window, time);
        const found = swept.result.violations.filter((one) => isOfTime(one, since));
        const violations = options.violationsOf(window, found);
        const judged = await latest(progress.window(), options, signal);
        await reportSweep(judged, { ...swept.result, violations }, relinked, options, signal);
        // A change during the sweep counts as a new one. A sweep that fails leaves the change.
        if (changes.get(name) === change) changes.delete(name);
        return requeueIn(plan.interim ? times.settleMs : times.recheckMs, now());
      }
    }
  };
}

/** Early links and pauses write the status during a sweep. The report must not fail again and again because of them. */
async function latest(
  judged: RestoreWindow,
  { client }: Pick<RestoreWriter, 'client'>,
  signal: AbortSignal,
): Promise<RestoreWindow> {
  const options = { fieldSelector: `metadata.name=${judged.metadata.name ?? ''}`, signal };
  const { items } = await client.listAll<RestoreWindow>(RESTORE_WINDOWS, options);
  const sweptOf = ({ metadata: { uid, deletionTimestamp }, spec, status }: RestoreWindow) =>
    [uid, deletionTimestamp, spec, status?.closedAt, status?.lastSweep] as const;
  return items.find((live) => isDeepStrictEqual(sweptOf(live), sweptOf(judged))) ?? judged;
}

/** Covers all windows without a final report, so that they can share the sweep. */
function sweepOptionsOf(
  window: RestoreWindow,
  all: readonly RestoreWindow[],
  interim: boolean,
  now: Date,
): SweepOptions {
  const waiting = [window, ...all.filter((one) => !hasFinalReport(one))];
  const since = waiting.map((one) => beganAt(one, now)).reduce((a, b) => (a < b ? a : b));
  return { interim, since, namespaceMapping: window.spec.namespaceMapping ?? {} };
}

/** The sweep may also look for defaults that an earlier restore needs. */
const isOfTime = ({ violation, written }: SweptViolation, since: Date): boolean =>
  violation.reason !== 'DefaultWouldChange' || isCreatedSince(written, since);

const beganAt = (window: RestoreWindow, now: Date): Date =>
  new Date(Math.min(Number(now), spanOf(window, 0).from));

async function open(
  window: RestoreWindow,
  now: Date,
  source: SourceState | undefined,
  writer: RestoreWriter,
  signal: AbortSignal,
): Promise<void> {
  const isNew = window.status?.openedAt === undefined;
  const openedAt = window.status?.openedAt ?? now.toISOString();
  const principals = window.spec.principals
    .map(({ user, group }) => user ?? `group ${group ?? ''}`)
    .join(', ');
  const message = `references are deferred for ${principals} until ${window.spec.expiresAt}`;
  const sourcePhase = source?.kind === 'known' ? { sourcePhase: source.phase } : {};
  await updateStatus(
    window,
    { phase: 'Open', openedAt, ...sourcePhase },
    [condition('Open', 'True', 'Opened', message), ...sourceConditions(source)],
    writer,
    signal,
  );
  if (isNew) announce(window, 'Normal', 'WindowOpened', message, writer.record);
}

function sourceConditions(source: SourceState | undefined): readonly ConditionUpdate[] {
  if (source === undefined) return [];
  if (source.kind === 'known')
    return [condition('SourceActive', 'True', 'Active', 'its objects are being written')];
  const message = 'the object that the window was opened for is deleted';
  return [condition('SourceActive', 'False', 'SourceDeleted', message)];
}

const EXPIRED = 'the window was open until it expired: if the restore is still running, open a new window';

const UNOBSERVED =
  'Gatehouse saw the restore only after its end: if no replica was ready, nothing was checked at admission. The sweep checks what is ' +
  'stored, but not what only a request shows, such as changes of immutable fields';

async function close(
  window: RestoreWindow,
  { at, reason }: { readonly at: Date; readonly reason: CloseReason },
  writer: RestoreWriter,
  signal: AbortSignal,
): Promise<void> {
  const message = 'every check is enforced again; stored objects will be swept';
  const change = { phase: 'Settling', closedAt: at.toISOString(), closeReason: reason } as const;
  const isSourceDone = reason === 'SourceInactive' || reason === 'SourceDeleted';
  const conditions = [
    condition('Open', 'False', reason, message),
    ...(reason === 'Expired' ? [condition('Expired', 'True', reason, EXPIRED)] : []),
    ...(isSourceDone ? [condition('SourceActive', 'False', reason, message)] : []),
    // Every replica that defers a check creates an open window first, so none has seen this restore.
    ...(isSourceDone && window.status?.openedAt === undefined && window.spec.close === true
      ? [condition('CheckedAtAdmission', 'False', 'Unobserved', UNOBSERVED)]
      : []),
  ];
  await updateStatus(window, change, conditions, writer, signal);
  announce(window, 'Normal', 'WindowClosed', message, writer.record);
}

const RECHECK_MS = 60_000;
const CONFIRM_AFTER_MS = 1_000;
/** Timeout of a sweep, in milliseconds. It reads every governed object: 100,000 objects take a minute or two. */
const SWEEP_MS = 10 * 60_000;

interface RestoreSources extends RestoreKinds {
  readonly registry: Pick<PolicyRegistry, 'inForce'>;
  readonly targets: Pick<Targets, 'onChange'>;
  readonly world: RequestWorld & RelinkSources['world'];
}

export function startRestores(context: LeaderContext, sources: RestoreSources, signal: AbortSignal) {
  const { windows, detectors, registry, targets, world } = sources;
  const { client, record, log, config, serverClock, tracing } = context;
  if (config.without.includes('restores')) return { stopped: Promise.resolve() };
  const now = serverClock.now;
  const policies = registry.inForce;
  const detection = startDetection(context, sources, signal);
  const stored = storedObjects(client, context.discovery, config.namespace, context.namespaces);
  const pause = (waiting: AbortSignal) => sleep(CONFIRM_AFTER_MS, undefined, { signal: waiting });
  const changes = new Map<string, object>();
  const settleMs = (window: RestoreWindow) => detection.times(window)?.settleMs ?? config.restoreSettleMs;
  const quiesce = startQuiesce(context, sources, settleMs, signal);
  const relinkers = createRelinkers(context, sources);
  const early = startEarlyLinks(context, sources, relinkers, signal);
  const reconcile = createRestoreWindowsReconciler({
    client,
    record,
    now,
    log,
    stored,
    changes,
    windows: windows.store,
    source: detection.source,
    sweep: traceSweeps(tracing, createSweep({ ...stored, policies, world, pause, now })),
    violationsOf: (window, all) => {
      const others = windows.store.list().filter(({ metadata }) => metadata.name !== window.metadata.name);
      const known = [[window, ...others], detectors.store.list()] as const;
      const { reporter } = createAttribution(...known, config.restoreSettleMs);
      return all.filter((found) => reporter(found) === window).map(({ violation }) => violation);
    },
    relink: createRelinkOwners(relinkers, context, sources),
    timesOf: (window) => ({ settleMs: settleMs(window), recheckMs: RECHECK_MS }),
  });
  const options = { name: 'restore-windows', objects: windows, timeoutMs: SWEEP_MS, reconcile };
  const controller = startController(context, options, signal);

  targets.onChange((target, key) => {
    for (const window of windows.store.list()) {
      if (!concernsReport(window, target, key)) continue;
      changes.set(keyOf(window), {});
      controller.add(keyOf(window));
    }
  }, signal);
  detection.onSourceChange(() => {
    for (const window of windows.store.list())
      if (window.status?.closedAt === undefined) controller.add(keyOf(window));
  }, signal);
  return { stopped: Promise.all([controller, detection, quiesce, early].map(({ stopped }) => stopped)) };
}
