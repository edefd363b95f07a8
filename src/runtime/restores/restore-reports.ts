/** The result of a sweep, in the status of its window and in RestoreReports. */
import { isDeepStrictEqual } from 'node:util';

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import type { RestoreReport, RestoreReportSpec } from '../../api/restore-report.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Condition } from '../../json/kube-object.ts';
import {
  withDates,
  relinkCondition,
  toRelinkStatus,
  toReports,
  toSweepStatus,
  type SweepResult,
} from '../../restore/report.ts';
import { RESTORE_REPORTS } from '../resources.ts';
import type { RelinkedStored } from './relink-owners.ts';
import {
  announce,
  condition,
  updateStatus,
  type ConditionUpdate,
  type RestoreWriter,
} from './window-status.ts';

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
    return verified('False', 'ViolationsFound', `${violations.length} violations; see status.violations`);
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
  const labelSelector = `${WINDOW_LABEL}=${labelOf(name)}`;
  const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS, { labelSelector, signal });
  const stale = new Map(
    items.filter(({ spec }) => spec.window === name).map((report) => [report.metadata.name, report]),
  );
  for (const spec of reports) {
    const wanted = toReport(window, spec);
    const live = stale.get(wanted.metadata.name);
    stale.delete(wanted.metadata.name);
    if (live === undefined) await client.create(RESTORE_REPORTS, wanted, { signal });
    else if (!isDeepStrictEqual(live.spec, spec))
      await client.replace(RESTORE_REPORTS, { ...live, spec }, { signal });
  }
  for (const { metadata } of stale.values())
    await client.delete(RESTORE_REPORTS, { name: metadata.name ?? '' }, { signal });
}

/** The window owns the report, so the garbage collector deletes both. */
function toReport({ metadata: { name = '', uid = '' } }: RestoreWindow, spec: RestoreReportSpec) {
  const apiVersion = `${GROUP}/${VERSION}`;
  return {
    apiVersion,
    kind: 'RestoreReport',
    metadata: {
      name: `${name}-${spec.part}`,
      labels: { [WINDOW_LABEL]: labelOf(name), [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      ownerReferences: [{ apiVersion, kind: 'RestoreWindow', name, uid }],
    },
    spec,
  };
}

/** A label value has at most 63 characters. */
const labelOf = (name: string): string => name.slice(0, 63).replace(/[-.]+$/, '');
