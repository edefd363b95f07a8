/** `gatehouse restore status`: reads windows, waits for their final report, and prints them. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { RestoreReport } from '../../api/restore-report.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { isNotFound } from '../../kube/api-error.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../../runtime/resources.ts';
import { messageWithCauses } from '../../json/error-message.ts';
import type { UserCluster } from '../connect.ts';
import type { OutputFormat } from '../terminal/options.ts';
import { print } from '../terminal/output.ts';
import { withProgress, type Progress } from '../terminal/progress.ts';
import { readTimeout } from './new-window.ts';
import { detailsOf, formatDetails, formatList } from './window-report.ts';

export type ExitCode = 0 | 1 | 2;

type Reader = Pick<UserCluster, 'client'>;

/** @throws when the window does not exist */
export async function readWindow({ client }: Reader, name: string): Promise<RestoreWindow> {
  const window = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name });
  if (window === undefined)
    throw new Error(`RestoreWindow "${name}" does not exist: gatehouse restore status lists all windows`);
  return window;
}

const POLL_INTERVAL_MS = 500;

/**
 * Polls a window until `accept` returns true; resolves to undefined on timeout.
 *
 * @param onPoll called with each window that is not accepted
 * @throws when the window is deleted
 */
export async function awaitWindow(
  cluster: Reader,
  name: string,
  accept: (window: RestoreWindow) => boolean,
  timeoutMs: number,
  onPoll: (window: RestoreWindow) => void = () => undefined,
): Promise<RestoreWindow | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const window = await readWindow(cluster, name);
    if (accept(window)) return window;
    onPoll(window);
    if (performance.now() + POLL_INTERVAL_MS > deadline) return undefined;
    await sleep(POLL_INTERVAL_MS);
  }
}

/** @param name undefined: list all windows */
export async function showStatus(
  cluster: Reader,
  name: string | undefined,
  format: OutputFormat,
): Promise<ExitCode> {
  if (name === undefined) {
    const { items } = await cluster.client.listAll<RestoreWindow>(RESTORE_WINDOWS);
    await print(formatList(items, format));
  } else await showWindow(cluster, await readWindow(cluster, name), format);
  return 0;
}

async function showWindow(cluster: Reader, window: RestoreWindow, format: OutputFormat): Promise<void> {
  const reports = await reportsOf(cluster, window.metadata.name ?? '');
  await print(formatDetails(detailsOf(window, reports), format));
}

/** Without its RestoreReports, a window still shows its first violations. */
async function reportsOf({ client }: Reader, window: string): Promise<readonly RestoreReport[]> {
  try {
    const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS);
    return items.filter(({ spec }) => spec.window === window);
  } catch (error) {
    if (!isNotFound(error))
      console.error(`note: could not read the RestoreReports: ${messageWithCauses(error)}`);
    return [];
  }
}

/**
 * Waits for the final report, with the progress of the sweep on a terminal. Prints the window in any case.
 *
 * @param options `timeout` is a duration
 * @throws when the window is deleted
 */
export async function showFinalReport(
  cluster: Reader,
  name: string,
  { timeout, format }: { readonly timeout: string; readonly format: OutputFormat },
): Promise<ExitCode> {
  const final = await withProgress((line) =>
    awaitWindow(cluster, name, isFinal, readTimeout(timeout), (window) => {
      const progress = progressOf(window);
      if (progress === undefined) line.clear();
      else line.show(progress);
    }),
  );
  await showWindow(cluster, final ?? (await readWindow(cluster, name)), format);
  if (final !== undefined) return final.status?.phase === 'Completed' ? 0 : 1;
  console.error(
    `error: no final report within ${timeout}. Run gatehouse restore status ${name} again later, and check the pods of ` +
      'Gatehouse (namespace gatehouse-system by default)',
  );
  return 1;
}

/** The interim sweep does not count: admitted writes may still arrive after it. */
export function isFinal({ status }: RestoreWindow): boolean {
  const { phase, lastSweep } = status ?? {};
  return (phase === 'Completed' || phase === 'CompletedWithViolations') && lastSweep?.interim === false;
}

function progressOf({ status }: RestoreWindow): Progress | undefined {
  if (status?.currentSweep === undefined) return undefined;
  const { objectsScanned, objectsTotal, resource } = status.currentSweep;
  return { what: resource, done: objectsScanned, total: objectsTotal };
}
