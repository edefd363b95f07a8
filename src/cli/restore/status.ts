/** `gatehouse restore status` */
import type { RestoreReport } from '../../api/restore-report.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { isNotFound } from '../../kube/api-error.ts';
import { sentenceOf } from '../../json/error-message.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../../runtime/resources.ts';
import { readWindow } from './await-window.ts';
import type { UserCluster } from '../user-cluster.ts';
import type { ExitCode, Say } from './outcome.ts';
import type { OutputFormat } from '../terminal/output.ts';
import { detailsOf, formatDetails, formatList } from './report/status-report.ts';

export async function showStatus(
  cluster: UserCluster,
  name: string | undefined,
  format: OutputFormat,
  say: Say,
): Promise<ExitCode> {
  if (name === undefined) {
    const { items } = await cluster.client.listAll<RestoreWindow>(RESTORE_WINDOWS);
    await say.result(formatList(items, format));
  } else await showWindow(cluster, await readWindow(cluster, name), format, say);
  return 0;
}

/** With all that its RestoreReports say. */
export async function showWindow(
  cluster: UserCluster,
  window: RestoreWindow,
  format: OutputFormat,
  say: Say,
): Promise<void> {
  const reports = await reportsOf(cluster, window.metadata.name ?? '', say);
  await say.result(formatDetails(detailsOf(window, reports), format));
}

/** The window says the most important without them. */
async function reportsOf(
  { client }: UserCluster,
  window: string,
  say: Say,
): Promise<readonly RestoreReport[]> {
  try {
    const { items } = await client.listAll<RestoreReport>(RESTORE_REPORTS);
    return items.filter(({ spec }) => spec.window === window);
  } catch (error) {
    if (!isNotFound(error)) say.note(`note: could not read the RestoreReports: ${sentenceOf(error)}`);
    return [];
  }
}
