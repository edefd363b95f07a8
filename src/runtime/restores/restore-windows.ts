/** On the leader: a RestoreWindow opens, closes and is swept; its status is the report. */
import type { Condition } from '../../json/kube-object.ts';
import type { RestoreReportSpec } from '../../api/restore-report.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import {
  relinkCondition,
  toRelinkStatus,
  dated,
  toReports,
  toSweepStatus,
  type SweepResult,
} from '../../restore/report.ts';
import { planWindow, type SourceState, type SweepTimes } from '../../restore/window-plan.ts';
import type { CloseReason } from '../../restore/window.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type RecordEvent } from '../controller.ts';
import type { RelinkedStored } from './relink-owners.ts';
import { createSharedSweep } from './shared-sweep.ts';
import { followSweep, type SweepFollowerDeps } from './sweep-follower.ts';
import type { Sweep, SweepOptions } from './sweep.ts';

export interface RestoreWindowsDeps extends Pick<SweepFollowerDeps, 'count' | 'writeStatus'> {
  readonly window: (name: string) => RestoreWindow | undefined;
  /** Whether something that the last report depends on has changed since the last call for this window. */
  readonly takeChanged: (name: string) => boolean;
  /** What the object does that the window was opened for; undefined where there is none, or nobody knows. */
  readonly source: (window: RestoreWindow) => SourceState | undefined;
  readonly sweep: Sweep;
  /** Links lost owners again as the window wants it; undefined where it does not. */
  readonly relink?: (window: RestoreWindow, signal: AbortSignal) => Promise<RelinkedStored | undefined>;
  readonly setCondition: (
    conditions: readonly Condition[],
    next: Omit<Condition, 'lastTransitionTime'>,
    now: Date,
  ) => readonly Condition[];
  /** Makes these all RestoreReports of the window. */
  readonly writeReports: (
    window: RestoreWindow,
    reports: readonly RestoreReportSpec[],
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly record: RecordEvent;
  readonly timesOf: (window: RestoreWindow) => SweepTimes;
  readonly now: () => Date;
  readonly log: Log;
}

type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export function createRestoreWindowsReconciler(deps: RestoreWindowsDeps): Reconcile {
  /** Windows whose report is behind a change: until it is written, for a sweep may fail and is then due again. */
  const behind = new Set<string>();
  const sweep = createSharedSweep(deps.sweep, deps.now);
  return async (name, signal) => {
    if (deps.takeChanged(name)) behind.add(name);
    const window = deps.window(name);
    if (window === undefined) {
      behind.delete(name);
      return GONE;
    }
    const now = deps.now();
    const seen = { changed: behind.has(name), source: deps.source(window) };
    const times = deps.timesOf(window);
    const plan = planWindow(window, now, seen, times);
    switch (plan.kind) {
      case 'done':
        return AWAIT_CHANGE;
      case 'wait':
        return { kind: 'requeue', at: plan.until };
      case 'refuse':
        await update(
          window,
          { phase: 'Refused' },
          [condition('Open', 'False', 'InvalidSpec', plan.problems.join('; '))],
          deps,
          signal,
        );
        return AWAIT_CHANGE;
      case 'open':
        await open(window, now, seen.source, deps, signal);
        return { kind: 'requeue', at: plan.until };
      case 'close':
        await close(window, plan, deps, signal);
        return AWAIT_CHANGE; // the status that was written comes back as a change
      case 'sweep': {
        const follower = followSweep(window, deps);
        const options = optionsOf(window, plan.interim, now);
        const swept = await sweep(options, plan.notBefore, signal, follower.onProgress);
        if (swept.kind === 'later') return { kind: 'requeue', at: swept.at };
        const relinked = await deps.relink?.(window, signal);
        await report(follower.window(), swept.result, relinked, deps, signal);
        behind.delete(name); // a change during the sweep counts as a new one
        return requeueIn(plan.interim ? times.settleMs : times.recheckMs, deps.now());
      }
    }
  };
}

function optionsOf({ metadata, spec, status }: RestoreWindow, interim: boolean, now: Date): SweepOptions {
  // A restore that nobody saw began before its window.
  const since = new Date(status?.openedAt ?? metadata.creationTimestamp ?? now);
  return { interim, since, namespaceMapping: spec.namespaceMapping ?? {} };
}

async function open(
  window: RestoreWindow,
  now: Date,
  source: SourceState | undefined,
  deps: RestoreWindowsDeps,
  signal: AbortSignal,
): Promise<void> {
  const isNew = window.status?.openedAt === undefined;
  const openedAt = window.status?.openedAt ?? now.toISOString();
  const message = `references are deferred for ${principalsOf(window)} until ${window.spec.expiresAt}`;
  await update(
    window,
    { phase: 'Open', openedAt, ...(source?.kind === 'known' ? { sourcePhase: source.phase } : {}) },
    [condition('Open', 'True', 'Opened', message), ...sourceCondition(source)],
    deps,
    signal,
  );
  if (isNew) announce(window, 'Normal', 'WindowOpened', message, deps);
}

function sourceCondition(source: SourceState | undefined): readonly ConditionUpdate[] {
  if (source === undefined) return [];
  return source.kind === 'gone'
    ? [
        condition(
          'SourceActive',
          'False',
          'SourceDeleted',
          'the object that the window was opened for is gone',
        ),
      ]
    : [condition('SourceActive', 'True', 'Active', 'its objects are being written')];
}

const EXPIRED = 'the window was open until its end: if the restore goes on, open a new one';

async function close(
  window: RestoreWindow,
  { at, reason }: { readonly at: Date; readonly reason: CloseReason },
  deps: RestoreWindowsDeps,
  signal: AbortSignal,
): Promise<void> {
  const message = 'every check is enforced again; what is stored will be swept';
  const change = { phase: 'Settling', closedAt: at.toISOString(), closeReason: reason } as const;
  const conditions = [
    condition('Open', 'False', reason, message),
    ...(reason === 'Expired' ? [condition('Expired', 'True', reason, EXPIRED)] : []),
    ...(reason === 'SourceInactive' || reason === 'SourceDeleted'
      ? [condition('SourceActive', 'False', reason, message)]
      : []),
  ];
  await update(window, change, conditions, deps, signal);
  announce(window, 'Normal', 'WindowClosed', message, deps);
}

async function report(
  window: RestoreWindow,
  swept: SweepResult,
  relinked: RelinkedStored | undefined,
  deps: RestoreWindowsDeps,
  signal: AbortSignal,
): Promise<void> {
  const result = {
    ...swept,
    unreadable: [...new Set([...swept.unreadable, ...(relinked?.unreadable ?? [])])],
  };
  const relink = relinked && toRelinkStatus(window.status?.relink, relinked.items);
  const { violations, unreadable, objectsScanned, interim } = result;
  const complete =
    unreadable.length === 0
      ? condition(
          'SweepComplete',
          'True',
          interim ? 'Interim' : 'Swept',
          `${objectsScanned} objects were read`,
        )
      : condition('SweepComplete', 'False', 'KindUnreadable', unreadable.join('; '));
  const verified = verdict(result);
  const before = window.status?.conditions?.find(({ type }) => type === 'IntegrityVerified');
  const known = window.status?.violations?.items ?? [];
  const reports = toReports(window.metadata.name ?? '', dated(result, known), relinked?.items ?? []);
  await deps.writeReports(window, reports, signal);
  await update(
    window,
    { ...toSweepStatus(result, window.status?.closedAt === undefined, known), ...(relink && { relink }) },
    [complete, verified, ...(relink === undefined ? [] : [relinkCondition(relink)])],
    deps,
    signal,
  );
  deps.log.info(
    { window: window.metadata.name, violations: violations.length, objectsScanned, interim },
    'swept',
  );
  if (before?.reason !== verified.reason || window.status?.violations?.total !== violations.length) {
    const type = violations.length > 0 || unreadable.length > 0 ? 'Warning' : 'Normal';
    announce(window, type, verified.reason, verified.message, deps);
  }
}

function verdict({ violations, unreadable, interim }: SweepResult): ConditionUpdate {
  const verified = (status: Condition['status'], reason: string, message: string) =>
    condition('IntegrityVerified', status, reason, message);
  if (violations.length > 0) {
    const message = `${violations.length} violations; see status.violations`;
    return verified('False', 'ViolationsFound', message);
  }
  if (unreadable.length > 0)
    return verified(
      'Unknown',
      'KindUnreadable',
      `no violation so far, but could not read ${unreadable.join('; ')}`,
    );
  if (interim) return verified('Unknown', 'Settling', 'no violation so far');
  return verified('True', 'Clean', 'nothing violates a policy that waited for the restore');
}

async function update(
  window: RestoreWindow,
  change: RestoreWindowStatus,
  conditions: readonly ConditionUpdate[],
  deps: RestoreWindowsDeps,
  signal: AbortSignal,
): Promise<void> {
  const before = window.status?.conditions ?? [];
  const generation = window.metadata.generation;
  const after = conditions.reduce<readonly Condition[]>(
    (all, next) =>
      deps.setCondition(
        all,
        { ...next, ...(generation === undefined ? {} : { observedGeneration: generation }) },
        deps.now(),
      ),
    before,
  );
  const changed =
    after !== before || Object.entries(change).some(([key, value]) => !isSame(window.status, key, value));
  if (!changed) return;
  const status = { ...window.status, ...change, conditions: [...after] };
  delete status.currentSweep; // whatever is said next, that one is over
  await deps.writeStatus(window, status, signal);
}

/** Only plain values are compared: a new sweep is always news. */
function isSame(status: RestoreWindowStatus | undefined, key: string, value: unknown): boolean {
  return Object.entries(status ?? {}).some(([name, current]) => name === key && current === value);
}

const condition = (
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
): ConditionUpdate => ({ type, status, reason, message });

const principalsOf = ({ spec }: RestoreWindow): string =>
  spec.principals.map(({ user, group }) => user ?? `group ${group ?? ''}`).join(', ');

function announce(
  { apiVersion, kind, metadata }: RestoreWindow,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
  { record }: RestoreWindowsDeps,
): void {
  const { name = '', uid } = metadata;
  const regarding = {
    apiVersion: apiVersion ?? 'gatehouse.dev/v1alpha1',
    kind: kind ?? 'RestoreWindow',
    name,
    ...(uid === undefined ? {} : { uid }),
  };
  record({ regarding, type, reason, message });
}
