/** `gatehouse restore close` and `approve`: the two changes that an open window takes. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';
import { readWindow } from './await-window.ts';
import { showFinalReport } from './final-report.ts';
import type { WaitFlags } from './command.ts';
import type { UserCluster } from '../user-cluster.ts';
import { readTimeout } from './new-window.ts';
import type { ExitCode, Say } from './outcome.ts';

/** @throws WrongUsage; an Error when the API server refuses */
export async function closeWindow(
  cluster: UserCluster,
  name: string,
  { wait = false, timeout }: WaitFlags,
  say: Say,
): Promise<ExitCode> {
  const timeoutMs = readTimeout(timeout);
  const before = await readWindow(cluster, name);
  if (before.spec.close !== true && before.status?.closedAt === undefined)
    await patch(cluster, name, { close: true }, 'close');
  const sentence = describeClosing(before);
  if (!wait) {
    await say.result(`${sentence}\n  report  gatehouse restore status ${name}\n`);
    return 0;
  }
  say.note(`${sentence} Waiting for the final sweep.`);
  return await showFinalReport(cluster, name, { timeout, timeoutMs, format: 'table' }, say);
}

export function describeClosing({ metadata, spec, status }: RestoreWindow): string {
  const label = `RestoreWindow "${metadata.name ?? ''}"`;
  if (status?.closedAt !== undefined)
    return `${label} was closed at ${status.closedAt} (${status.closeReason ?? 'Manual'}).`;
  return spec.close === true
    ? `${label} is being closed already.`
    : `${label} is closed: every check is enforced again.`;
}

/** @throws when there is nothing to approve, or the API server refuses */
export async function approveWindow(cluster: UserCluster, name: string, say: Say): Promise<ExitCode> {
  const window = await readWindow(cluster, name);
  const nothing = whyNothingToApprove(window);
  if (nothing !== undefined) throw new Error(`RestoreWindow "${name}" waits for no approval: ${nothing}`);
  if (window.spec.sweep?.approved !== true)
    await patch(cluster, name, { sweep: { approved: true } }, 'approve the links of');
  await say.result(
    `The owner references that RestoreWindow "${name}" lists are approved; its next sweep links them.\n` +
      `  report  gatehouse restore status ${name}\n`,
  );
  return 0;
}

/** Undefined when there is something. */
export function whyNothingToApprove({ spec }: RestoreWindow): string | undefined {
  const { relinkOwners = 'Link', requireApprovalToLink = false } = spec.sweep ?? {};
  if (relinkOwners !== 'Link')
    return `with sweep.relinkOwners ${relinkOwners} it links nothing, and that cannot be changed once it is there`;
  return requireApprovalToLink ? undefined : 'it links lost owners without being asked';
}

async function patch(
  { client }: UserCluster,
  name: string,
  spec: object,
  what: string,
): Promise<RestoreWindow> {
  try {
    return await client.patchMerge<RestoreWindow>(RESTORE_WINDOWS, { name }, { spec });
  } catch (cause) {
    throw new Error(`could not ${what} RestoreWindow "${name}"`, { cause });
  }
}
