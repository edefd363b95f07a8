/** `gatehouse restore open`, `close` and `approve`. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';
import type { UserCluster } from '../connect.ts';
import { print } from '../terminal/output.ts';
import { readTimeout } from './new-window.ts';
import { describeDeferral, detailsOf } from './window-report.ts';
import { awaitWindow, readWindow, showFinalReport, type ExitCode } from './window-status.ts';

/**
 * @param timeout a duration; undefined: do not wait until the window is open
 * @throws when the API server refuses, or the window is deleted meanwhile
 */
export async function openWindow(
  cluster: UserCluster,
  wanted: RestoreWindow,
  timeout: string | undefined,
): Promise<ExitCode> {
  const label = wanted.metadata.name ?? '';
  const created = await explained('open', label, cluster.client.create(RESTORE_WINDOWS, wanted));
  if (timeout === undefined) {
    await print(`${describeOpening(created, 'is created')}\n`);
    return 0;
  }
  const isDecided = (window: RestoreWindow) => isOpen(window) || whyNotOpen(window) !== undefined;
  const window = await awaitWindow(cluster, label, isDecided, readTimeout(timeout));
  if (window === undefined) {
    console.error(
      `error: RestoreWindow "${label}" is created, but no leader of Gatehouse has opened it within ${timeout}: check the pods ` +
        'of Gatehouse (namespace gatehouse-system by default). Without a leader, no check is deferred and no object is swept',
    );
    return 1;
  }
  if (!isOpen(window)) {
    console.error(`error: RestoreWindow "${label}" is not open: ${whyNotOpen(window) ?? ''}`);
    return 1;
  }
  await print(`${describeOpening(window, 'is open')}\n`);
  return 0;
}

const isOpen = ({ status }: RestoreWindow): boolean => status?.phase === 'Open';

/** Undefined while the window may still open. */
function whyNotOpen({ status }: RestoreWindow): string | undefined {
  const condition = status?.conditions?.find(({ type }) => type === 'Open');
  if (condition?.status === 'False') return condition.message;
  return status?.closedAt === undefined
    ? undefined
    : `it is already closed (${status.closeReason ?? 'Manual'})`;
}

function describeOpening(window: RestoreWindow, what: string): string {
  const details = detailsOf(window, []);
  return [
    `RestoreWindow "${details.name}" ${what}, until ${details.expiresAt}.`,
    `  defers  ${describeDeferral(details) ?? 'nothing'}; all other requests are checked as usual`,
    `  close   gatehouse restore close ${details.name} --wait`,
  ].join('\n');
}

/**
 * @param timeout a duration; undefined: do not wait for the final report
 * @throws when the window does not exist, or the API server refuses
 */
export async function closeWindow(
  cluster: UserCluster,
  name: string,
  timeout: string | undefined,
): Promise<ExitCode> {
  const before = await readWindow(cluster, name);
  if (before.spec.close !== true && before.status?.closedAt === undefined)
    await patch(cluster, name, { close: true }, 'close');
  const sentence = describeClosing(before);
  if (timeout === undefined) {
    await print(`${sentence}\n  report  gatehouse restore status ${name}\n`);
    return 0;
  }
  console.error(`${sentence} Waiting for the final sweep.`);
  return await showFinalReport(cluster, name, { timeout, format: 'table' });
}

export function describeClosing({ metadata, spec, status }: RestoreWindow): string {
  const label = `RestoreWindow "${metadata.name ?? ''}"`;
  if (status?.closedAt !== undefined)
    return `${label} was closed at ${status.closedAt} (${status.closeReason ?? 'Manual'}).`;
  return spec.close === true
    ? `${label} is already closing.`
    : `${label} is closed: all checks are enforced again.`;
}

/** @throws when the window needs no approval, or the API server refuses */
export async function approveWindow(cluster: UserCluster, name: string): Promise<ExitCode> {
  const window = await readWindow(cluster, name);
  const obstacle = whyNothingToApprove(window);
  if (obstacle !== undefined) throw new Error(`RestoreWindow "${name}" needs no approval: ${obstacle}`);
  if (window.spec.sweep?.approved !== true)
    await patch(cluster, name, { sweep: { approved: true } }, 'approve the links of');
  await print(
    `The owner references that RestoreWindow "${name}" lists are approved. The next sweep links them.\n` +
      `  report  gatehouse restore status ${name}\n`,
  );
  return 0;
}

/** Undefined when the window waits for an approval. */
export function whyNothingToApprove({ spec }: RestoreWindow): string | undefined {
  const { relinkOwners = 'Link', requireApprovalToLink = false } = spec.sweep ?? {};
  if (relinkOwners !== 'Link')
    return `spec.sweep.relinkOwners is ${relinkOwners}, so it links no owners; the field is immutable`;
  return requireApprovalToLink ? undefined : 'it links lost owners without approval';
}

const patch = ({ client }: UserCluster, name: string, spec: object, what: string): Promise<unknown> =>
  explained(what, name, client.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name }, { spec }));

/** @throws Error that names the window and what could not be done */
async function explained<T>(what: string, name: string, call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (cause) {
    throw new Error(`could not ${what} RestoreWindow "${name}"`, { cause });
  }
}
