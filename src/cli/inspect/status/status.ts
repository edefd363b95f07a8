/** `gatehouse status`: reads a cluster as the user of the kubeconfig, and reports the health of Gatehouse. */
import type { Compat } from '../../../pki/injection/request.ts';
import { messageWithCauses } from '../../../json/error-message.ts';
import { withCluster } from '../../connect.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import { formatData, hasColours, print } from '../../terminal/output.ts';
import { readCluster } from '../read-cluster/read-cluster.ts';
import { formatStatus } from './format-status.ts';
import { statusReport } from './report/status-report.ts';

export interface StatusFlags extends ClusterFlags {
  readonly namespace: string;
  readonly compat: readonly Compat[];
  readonly output: OutputFormat;
}

/** @returns the exit code */
export async function status(flags: StatusFlags): Promise<0 | 1> {
  try {
    const report = await withCluster(flags, 'status', async ({ server, version, client, now }) => {
      const readings = await readCluster(client, flags);
      return statusReport(readings, { ...flags, server, version: version.gitVersion, now: now() });
    });
    await print(
      flags.output === 'table'
        ? formatStatus(report, hasColours(), process.stdout.isTTY ? process.stdout.columns : undefined)
        : formatData(report, flags.output),
    );
    return report.healthy ? 0 : 1;
  } catch (error) {
    console.error(`error: ${messageWithCauses(error)}`);
    return 1;
  }
}
