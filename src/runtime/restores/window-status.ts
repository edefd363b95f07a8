/** Status and Events of a RestoreWindow, and its RestoreReports with the result of a sweep. */
import { isDeepStrictEqual } from 'node:util';

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import type { RestoreReport, RestoreReportSpec } from '../../api/restore-report.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { counted } from '../../json/counted.ts';
import type { Condition } from '../../json/kube-object.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition, setReady, type NotReady } from '../../json/conditions.ts';
import { withKind } from '../../kube/object.ts';
import type { Log } from '../../log.ts';
import {
  relinkCondition,
  toRelinkStatus,
  toReports,
  toSweepStatus,
  withDates,
  type SweepResult,
} from '../../restore/report.ts';
import { toLabelValue } from '../../restore/window-names.ts';
import { regarding, type RecordEvent } from '../controller.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../resources.ts';
import type { RelinkedStored } from './relink-owners.ts';

/** How a reconcile of restores writes. */
export interface RestoreWriter {
  readonly client: Pick<KubeClient, 'listAll' | 'create' | 'replace' | 'replaceStatus' | 'delete'>;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

export type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export const condition = (
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
): ConditionUpdate => ({ type, status, reason, message });

/** `before` with the updates; the same array when they change nothing. */
export function withConditions(
  before: readonly Condition[],
  updates: readonly ConditionUpdate[],
  generation: number | undefined,
  now: Date,
): readonly Condition[] {
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  return updates.reduce((all, next) => setCondition(all, { ...next, ...observed }, now), before);
}

/** The condition `Ready`. An open window is ready: a restore can start when `kubectl wait` returns. */
function windowReadiness(
  phase: RestoreWindowStatus['phase'],
  updates: readonly ConditionUpdate[],
): Pick<Condition, 'status' | 'reason' | 'message'> & { readonly why?: NotReady } {
  const message = (type: string, or: string) => updates.find((one) => one.type === type)?.message ?? or;
  switch (phase) {
    case 'Open':
      return { status: 'True', reason: 'Open', message: 'the window is open' };
    case 'Completed':
      return {
        status: 'True',
        reason: 'Completed',
        message: message('IntegrityVerified', 'no violation is left'),
      };
    case 'CompletedWithViolations': {
      const found = message('IntegrityVerified', 'violations are left');
      return { status: 'False', reason: 'ViolationsFound', message: found, why: 'Stalled' };
    }
    case 'Refused': {
      const problem = message('Open', 'the spec is not valid');
      return { status: 'False', reason: 'InvalidSpec', message: problem, why: 'Stalled' };
    }
    case 'Settling':
    case undefined:
      return {
        status: 'False',
        reason: 'Settling',
        message: 'stored objects are being swept',
        why: 'Reconciling',
      };
  }
}

/** Writes the status if it differs. The write fails if the window has changed since it was read. */
export async function updateStatus(
  window: RestoreWindow,
  change: RestoreWindowStatus,
  updates: readonly ConditionUpdate[],
  { client, now }: Pick<RestoreWriter, 'client' | 'now'>,
  signal: AbortSignal,
): Promise<void> {
  const before = window.status?.conditions ?? [];
  const { generation } = window.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const { why, ...ready } = windowReadiness(change.phase ?? window.status?.phase, updates);
  const withReady = setReady(before, { ...ready, ...observed }, why, now());
  const after = withConditions(withReady, updates, generation, now());
  // Only plain values are compared: a new sweep always counts as a change.
  const current = new Map<string, unknown>(Object.entries(window.status ?? {}));
  const isSame = Object.entries({ ...change, ...observed }).every(
    ([key, value]) => current.get(key) === value,
  );
  if (after === before && isSame) return;
  const status = { ...window.status, ...change, ...observed, conditions: [...after] };
  delete status.currentSweep; // every other status ends the progress of a sweep
  await client.replaceStatus(RESTORE_WINDOWS, { ...window, status }, { signal });
}

export function announce(
  window: RestoreWindow,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
  record: RecordEvent,
): void {
  record({ regarding: regarding(withKind(RESTORE_WINDOWS, window)), type, reason, message });
}

export async function reportSweep(
  window: RestoreWindow,
  swept: SweepResult,
  relinked: RelinkedStored | undefined,
  writer: RestoreWriter,
  signal: AbortSignal,
): Promise<void> {
  const unreadable = [...new Set([...swept.unreadable, ...(relinked?.unreadable ?? [])])];
  const result = { ...swept, unreadable };
  const relink = relinked && toRelinkStatus(window.status?.relink, relinked.items);
  const { violations, objectsScanned, interim } = result;
  const read = `${counted(objectsScanned, 'object')} ${objectsScanned === 1 ? 'was' : 'were'} read`;
  const complete =
    unreadable.length === 0
      ? condition('SweepComplete', 'True', interim ? 'Interim' : 'Swept', read)
      : condition('SweepComplete', 'False', 'KindUnreadable', unreadable.join('; '));
  const verified = verdict(result);
  const { name = '' } = window.metadata;
  const { status = {} } = window;
  const before = status.conditions?.find(({ type }) => type === 'IntegrityVerified');
  const known = status.violations?.items ?? [];
  const reports = toReports(name, withDates(result, known), relinked?.items ?? []);
  await writeReports(window, reports, writer.client, signal);
  await updateStatus(
    window,
    { ...toSweepStatus(result, status.closedAt === undefined, known), ...(relink && { relink }) },
    [complete, verified, ...(relink === undefined ? [] : [relinkCondition(relink)])],
    writer,
    signal,
  );
  writer.log.info({ window: name, violations: violations.length, objectsScanned, interim }, 'swept');
  if (before?.reason !== verified.reason || status.violations?.total !== violations.length) {
    const type = violations.length > 0 || unreadable.length > 0 ? 'Warning' : 'Normal';
    announce(window, type, verified.reason, verified.message, writer.record);
  }
}

function verdict({ violations, unreadable, interim }: SweepResult): ConditionUpdate {
  const verified = (status: Condition['status'], reason: string, message: string) =>
    condition('IntegrityVerified', status, reason, message);
  if (violations.length > 0)
    return verified(
      'False',
      'ViolationsFound',
      `${counted(violations.length, 'violation')}; see status.violations`,
    );
  if (unreadable.length > 0) {
    const message = `no violation so far, but could not read ${unreadable.join('; ')}`;
    return verified('Unknown', 'KindUnreadable', message);
  }
  if (interim) return verified('Unknown', 'Settling', 'no violation so far');
  return verified('True', 'Clean', 'no object violates a policy that was deferred for the restore');
}

const WINDOW_LABEL = 'gatehouse.dev/restore-window';

/** Makes these the RestoreReports of the window: creates and replaces what differs, and deletes the others. */
async function writeReports(
  window: RestoreWindow,
  reports: readonly RestoreReportSpec[],
  client: RestoreWriter['client'],
  signal: AbortSignal,
): Promise<void> {
  const { name = '' } = window.metadata;
  const labelSelector = `${WINDOW_LABEL}=${toLabelValue(name)}`;
  const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS, { labelSelector, signal });
  const stale = new Map(
    items.filter(({ spec }) => spec.window === name).map((report) => [report.metadata.name, report]),
  );
  for (const spec of reports) {
    const wanted = toReport(window, spec);
    const live = stale.get(wanted.metadata.name);
    stale.delete(wanted.metadata.name);
    if (live === undefined) await createReport(wanted, client, signal);
    else if (!isDeepStrictEqual(live.spec, spec))
      await client.replace(RESTORE_REPORTS, { ...live, spec }, { signal });
  }
  for (const report of stale.values()) await remove(report, client, signal);
}

/** Keeps an equal report: another leader has just written it. Replaces any other object that has the name. */
async function createReport(
  report: RestoreReport,
  client: Pick<KubeClient, 'listAll' | 'create' | 'delete'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await client.create(RESTORE_REPORTS, report, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const { name = '' } = report.metadata;
    // A list needs no further permission.
    const options = { fieldSelector: `metadata.name=${name}`, signal };
    const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS, options);
    const live = items.find(({ metadata }) => metadata.name === name);
    if (live !== undefined && isSameReport(live, report)) return;
    if (live !== undefined) await remove(live, client, signal);
    await client.create(RESTORE_REPORTS, report, { signal });
  }
}

const isSameReport = (a: RestoreReport, b: RestoreReport): boolean =>
  isDeepStrictEqual(a.spec, b.spec) &&
  isDeepStrictEqual(a.metadata.labels, b.metadata.labels) &&
  isDeepStrictEqual(a.metadata.ownerReferences, b.metadata.ownerReferences);

/** Deletes the object that was read, not one that has replaced it since. */
const remove = (
  { metadata: { name = '', uid } }: RestoreReport,
  client: Pick<KubeClient, 'delete'>,
  signal: AbortSignal,
) => client.delete(RESTORE_REPORTS, { name }, { signal, preconditions: { uid } });

/** The window owns the report, so the garbage collector deletes both. */
function toReport({ metadata: { name = '', uid = '' } }: RestoreWindow, spec: RestoreReportSpec) {
  const apiVersion = `${GROUP}/${VERSION}`;
  return {
    apiVersion,
    kind: 'RestoreReport',
    metadata: {
      name: `${name}-${spec.part}`,
      labels: { [WINDOW_LABEL]: toLabelValue(name), [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      ownerReferences: [{ apiVersion, kind: 'RestoreWindow', name, uid }],
    },
    spec,
  };
}
