/** `gatehouse restore open`, `close` and `approve`. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';
import type { UserCluster } from '../connect.ts';
import { readTimeout } from './new-window.ts';
import { awaitWindow, readWindow, showFinalReport, type ExitCode, type Printer } from './window-status.ts';

/**
 * @param timeout a duration; undefined: do not wait until the window is open
 * @throws when the API server refuses, or the window is deleted meanwhile
 */
export async function openWindow(
  cluster: UserCluster,
  wanted: RestoreWindow,
  timeout: string | undefined,
  printer: Printer,
): Promise<ExitCode> {
  const created = await create(cluster, wanted);
  if (timeout === undefined) {
    await printer.result(`${describeOpening(created, 'is created')}\n`);
    return 0;
  }
  const label = created.metadata.name ?? '';
  const isDecided = (window: RestoreWindow) => isOpen(window) || whyNotOpen(window) !== undefined;
  const window = await awaitWindow(cluster, label, isDecided, readTimeout(timeout));
  if (window === undefined) {
    printer.note(
      `error: RestoreWindow "${label}" is created, but no leader of Gatehouse has opened it within ${timeout}: check the pods ` +
        'of Gatehouse (namespace gatehouse-system by default). Without a leader, no check is deferred and no object is swept',
    );
    return 1;
  }
  if (!isOpen(window)) {
    printer.note(`error: RestoreWindow "${label}" is not open: ${whyNotOpen(window) ?? ''}`);
    return 1;
  }
  await printer.result(`${describeOpening(window, 'is open')}\n`);
  return 0;
}

async function create({ client }: UserCluster, window: RestoreWindow): Promise<RestoreWindow> {
  try {
    return await client.create(RESTORE_WINDOWS, window);
  } catch (cause) {
    throw new Error(`could not open RestoreWindow "${window.metadata.name ?? ''}"`, { cause });
  }
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

function describeOpening({ metadata, spec }: RestoreWindow, what: string): string {
  const { operations = ['CREATE', 'UPDATE'], namespaces } = spec.match ?? {};
  const who = spec.principals.map(({ user, group }) => user ?? `group ${group ?? ''}`).join(', ');
  const where = namespaces?.include === undefined ? 'everywhere' : `in ${namespaces.include.join(', ')}`;
  const { name = '' } = metadata;
  return [
    `RestoreWindow "${name}" ${what}, until ${spec.expiresAt}.`,
    `  defers  ${operations.join(', ')} by ${who}, ${where}; all other requests are checked as usual`,
    `  close   gatehouse restore close ${name} --wait`,
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
  printer: Printer,
): Promise<ExitCode> {
  const before = await readWindow(cluster, name);
  if (before.spec.close !== true && before.status?.closedAt === undefined)
    await patch(cluster, name, { close: true }, 'close');
  const sentence = describeClosing(before);
  if (timeout === undefined) {
    await printer.result(`${sentence}\n  report  gatehouse restore status ${name}\n`);
    return 0;
  }
  printer.note(`${sentence} Waiting for the final sweep.`);
  return await showFinalReport(cluster, name, { timeout, format: 'table' }, printer);
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
export async function approveWindow(cluster: UserCluster, name: string, printer: Printer): Promise<ExitCode> {
  const window = await readWindow(cluster, name);
  const obstacle = whyNothingToApprove(window);
  if (obstacle !== undefined) throw new Error(`RestoreWindow "${name}" needs no approval: ${obstacle}`);
  if (window.spec.sweep?.approved !== true)
    await patch(cluster, name, { sweep: { approved: true } }, 'approve the links of');
  await printer.result(
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

async function patch({ client }: UserCluster, name: string, spec: object, what: string): Promise<void> {
  try {
    await client.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name }, { spec });
  } catch (cause) {
    throw new Error(`could not ${what} RestoreWindow "${name}"`, { cause });
  }
}
