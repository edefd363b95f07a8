import { isDeepStrictEqual } from 'node:util';

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import type { RestoreReport, RestoreReportSpec } from '../../api/restore-findings.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { counted } from '../../json/counted.ts';
import {
  type Condition,
  groupResourceName,
  type GroupResource,
  type ObjectMeta,
} from '../../json/kube-object.ts';
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
import { toLabelValue } from '../../restore/detected-window.ts';
import { regarding, type RecordEvent } from '../controller.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../resources.ts';
import type { RelinkedStored } from './relink.ts';
import { sumOf, type StoredObjects } from '../policies/stored-objects.ts';
import type { SweepProgress } from './sweep.ts';

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

export interface Readiness {
  readonly ready: ConditionUpdate;
  readonly why?: NotReady | undefined;
}

/** @returns `before` if nothing has changed */
export function withConditions(
  before: readonly Condition[] = [],
  { ready, why }: Readiness,
  updates: readonly ConditionUpdate[],
  observed: { readonly observedGeneration?: number },
  now: Date,
): readonly Condition[] {
  const withReady = setReady(before, { ...ready, ...observed }, why, now);
  return updates.reduce((all, next) => setCondition(all, { ...next, ...observed }, now), withReady);
}

export const observedOf = ({ generation }: ObjectMeta): { readonly observedGeneration?: number } =>
  generation === undefined ? {} : { observedGeneration: generation };

/** The condition `Ready`, and why it is false. An open window is ready: a restore can start when `kubectl wait` returns. */
function windowReadiness(
  phase: RestoreWindowStatus['phase'],
  updates: readonly ConditionUpdate[],
): Readiness {
  const message = (type: string, or: string) => updates.find((one) => one.type === type)?.message ?? or;
  const verified = updates.find(({ type }) => type === 'IntegrityVerified');
  switch (phase) {
    case 'Open':
      return { ready: condition('Ready', 'True', 'Open', 'the window is open') };
    case 'Completed':
      return { ready: condition('Ready', 'True', 'Completed', verified?.message ?? 'no violation is left') };
    case 'CompletedWithViolations':
      return verified?.status === 'True'
        ? notReady('LinkFailed', message('OwnersRelinked', 'owners could not be linked'))
        : notReady(verified?.reason ?? 'ViolationsFound', verified?.message ?? 'violations are left');
    case 'Refused':
      return notReady('InvalidSpec', message('Open', 'the spec is not valid'));
    case 'Settling':
    case undefined:
      return notReady('Settling', 'stored objects are being swept', 'Reconciling');
  }
}

const notReady = (reason: string, message: string, why: NotReady = 'Stalled'): Readiness => ({
  ready: condition('Ready', 'False', reason, message),
  why,
});

/** Writes the status if it differs. The write fails if the window has changed since it was read. */
export async function updateStatus(
  window: RestoreWindow,
  change: RestoreWindowStatus,
  updates: readonly ConditionUpdate[],
  { client, now }: Pick<RestoreWriter, 'client' | 'now'>,
  signal: AbortSignal,
): Promise<void> {
  const before = window.status?.conditions ?? [];
  const observed = observedOf(window.metadata);
  const readiness = windowReadiness(change.phase ?? window.status?.phase, updates);
  const after = withConditions(before, readiness, updates, observed, now());
  // Only plain values are compared: a new sweep always counts as a change.
  const current = new Map<string, unknown>(Object.entries(window.status ?? {}));
  const changes = Object.entries({ ...change, ...observed });
  const isSame = changes.every(([key, value]) => current.get(key) === value);
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
  const known = window.status?.violations?.items ?? [];
  const result = { ...swept, unreadable, violations: withDates(swept, known) };
  const relink = relinked && toRelinkStatus(window.status?.relink, relinked.items);
  const found = relink === undefined ? {} : { relink };
  const { violations, objectsScanned, interim } = result;
  const read = `objects checked for violations: ${objectsScanned}`;
  const complete =
    unreadable.length === 0
      ? condition('SweepComplete', 'True', interim ? 'Interim' : 'Swept', read)
      : condition('SweepComplete', 'False', 'KindUnreadable', unreadable.join('; '));
  const verified = verdict(result);
  const { name = '' } = window.metadata;
  const { status = {} } = window;
  const before = status.conditions?.find(({ type }) => type === 'IntegrityVerified');
  const after = toSweepStatus(result, { ...status, ...found });
  const reports = toReports(name, violations, relinked?.items ?? []);
  await writeReports(window, reports, writer.client, signal);
  await updateStatus(
    window,
    { ...after, ...found },
    [complete, verified, ...(relink === undefined ? [] : [relinkCondition(relink)])],
    writer,
    signal,
  );
  writer.log.info({ window: name, violations: violations.length, objectsScanned, interim }, 'swept');
  if (before?.reason !== verified.reason || status.violations?.total !== after.violations.total) {
    const type = violations.length > 0 || unreadable.length > 0 ? 'Warning' : 'Normal';
    announce(window, type, verified.reason, verified.message, writer.record);
  }
}

function verdict({ violations, unreadable, interim }: SweepResult): ConditionUpdate {
  const verified = (status: Condition['status'], reason: string, message: string) =>
    condition('IntegrityVerified', status, reason, message);
  if (violations.length > 0) {
    const message = `${counted(violations.length, 'violation')}; see status.violations`;
    return verified('False', 'ViolationsFound', message);
  }
  if (unreadable.length > 0) {
    const message = `no violation so far, but could not read ${unreadable.join('; ')}`;
    return verified('Unknown', 'KindUnreadable', message);
  }
  if (interim) return verified('Unknown', 'Settling', 'no violation so far');
  return verified('True', 'Clean', 'no object violates a policy that was deferred for the restore');
}

const WINDOW_LABEL = 'gatehouse.dev/restore-window';

async function writeReports(
  window: RestoreWindow,
  reports: readonly RestoreReportSpec[],
  client: RestoreWriter['client'],
  signal: AbortSignal,
): Promise<void> {
  const { name = '' } = window.metadata;
  const labelSelector = `${WINDOW_LABEL}=${toLabelValue(name)}`;
  const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS, { labelSelector, signal });
  const ofWindow = items.filter(({ spec }) => spec.window === name);
  const stale = new Map(ofWindow.map((report) => [report.metadata.name, report]));
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
    // A list doesn't require another permission.
    const options = { fieldSelector: `metadata.name=${name}`, signal };
    const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS, options);
    const live = items.find(({ metadata }) => metadata.name === name);
    if (live !== undefined && isDeepStrictEqual(contentOf(live), contentOf(report))) return;
    if (live !== undefined) await remove(live, client, signal);
    await client.create(RESTORE_REPORTS, report, { signal });
  }
}

const contentOf = ({ spec, metadata }: RestoreReport) => [spec, metadata.labels, metadata.ownerReferences];

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

export interface SweepProgressOptions extends Pick<RestoreWriter, 'now' | 'log'> {
  readonly client: Pick<RestoreWriter['client'], 'replaceStatus'>;
  readonly stored: Pick<StoredObjects, 'count'>;
}

/** Delay before the first write and between writes, in milliseconds. Most sweeps end before the first write. */
const EVERY_MS = 3_000;

/** A failed write is only logged: it must not end the sweep. */
export function followSweep(judged: RestoreWindow, { client, stored, now, log }: SweepProgressOptions) {
  let window = judged;
  let writtenAt: number | undefined;
  let total: Promise<number | undefined> | undefined;
  let isOutdated = false;
  const write = async (progress: SweepProgress, signal: AbortSignal) => {
    total ??= totalOf(progress.resources, stored, signal);
    const { startedAt, phase, objectsScanned, resource } = progress;
    const objectsTotal = await total;
    const currentSweep = {
      startedAt: startedAt.toISOString(),
      objectsScanned,
      ...(objectsTotal === undefined ? {} : { objectsTotal: Math.max(objectsTotal, objectsScanned) }),
      phase,
      resource: groupResourceName(resource),
    };
    const next = { ...window, status: { ...window.status, currentSweep } };
    window = await client.replaceStatus(RESTORE_WINDOWS, next, { signal });
  };
  return {
    /** The window as last written: the next write must start from it, because its resourceVersion has changed. */
    window: () => window,
    onProgress: async (progress: SweepProgress, signal: AbortSignal): Promise<void> => {
      const time = now().getTime();
      if (isOutdated || time - (writtenAt ?? progress.startedAt.getTime()) < EVERY_MS) return;
      writtenAt = time;
      try {
        await write(progress, signal);
      } catch (error) {
        // Usually the window has changed. The report then fails with the same conflict and is retried.
        isOutdated = true;
        log.debug({ window: judged.metadata.name, err: error }, 'could not write the progress of the sweep');
      }
    },
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  stored: SweepProgressOptions['stored'],
  signal: AbortSignal,
): Promise<number | undefined> {
  const countOf = (resource: GroupResource) => stored.count(resource, signal).catch(() => undefined);
  return sumOf(await Promise.all(resources.map(countOf)));
}
