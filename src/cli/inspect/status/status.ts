/** `gatehouse status`: reads a cluster as the user of the kubeconfig, and tells how Gatehouse stands in it. */
import { sentenceOf } from '../../../json/error-message.ts';
import type { StatusFlags } from './command.ts';
import { formatStatus } from './format/format-status.ts';
import { readCluster } from './read-cluster.ts';
import { statusReport, type StatusReport } from './report/status-report.ts';
import { formatData, print, wantsColours } from '../../terminal/output.ts';
import { connectToCluster } from '../../user-cluster.ts';

/** What the process ends with. */
export async function status(flags: StatusFlags): Promise<0 | 1> {
  try {
    const report = await look(flags);
    await print(
      flags.output === 'table' ? formatStatus(report, wantsColours()) : formatData(report, flags.output),
    );
    return report.healthy ? 0 : 1;
  } catch (error) {
    console.error(`error: ${sentenceOf(error)}`);
    return 1;
  }
}

async function look(flags: StatusFlags): Promise<StatusReport> {
  const cluster = await connectToCluster(flags, 'status');
  try {
    const { server, version, client, now } = cluster;
    const readings = await readCluster(client, flags);
    return statusReport(readings, { ...flags, server, version: version.gitVersion, now: now() });
  } finally {
    await cluster.close();
  }
}
