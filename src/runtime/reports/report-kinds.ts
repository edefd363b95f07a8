/** Which report formats the API server serves, and the reports of Gatehouse in each. */
import {
  isOwnReport,
  REPORT_FORMATS,
  REPORT_SELECTOR,
  type Report,
  type ReportFormat,
} from '../../admission/reports/report.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import { listIn, type Namespaces } from '../namespaces.ts';

export interface ServedFormat {
  readonly format: ReportFormat;
  readonly namespaced: Resource;
  readonly cluster: Resource;
}

/** A report in the API server. */
export interface StoredReport {
  readonly resource: Resource;
  readonly report: Report;
}

/** The preferred format first. A group that serves only one of its kinds counts as not served. */
export async function servedFormats(
  discovery: Pick<Discovery, 'servedIn'>,
  signal: AbortSignal,
): Promise<readonly ServedFormat[]> {
  const served: ServedFormat[] = [];
  for (const format of REPORT_FORMATS) {
    const kinds = await discovery.servedIn(format.group, signal);
    const find = (resource: string) =>
      kinds.find((kind) => kind.version === format.version && kind.resource === resource);
    const namespaced = find(format.namespaced.resource);
    const cluster = find(format.cluster.resource);
    if (namespaced !== undefined && cluster !== undefined) served.push({ format, namespaced, cluster });
  }
  return served;
}

/** @throws when the API server refuses a list: reports that cannot be compared must not be written */
export async function ownReports(
  client: Pick<KubeClient, 'listAll'>,
  { namespaced, cluster }: ServedFormat,
  namespaces: Namespaces,
  signal: AbortSignal,
): Promise<readonly StoredReport[]> {
  const found: StoredReport[] = [];
  for (const resource of [namespaced, cluster]) {
    const reports = await listIn<Report>(client, resource, namespaces, {
      labelSelector: REPORT_SELECTOR,
      signal,
    });
    found.push(...reports.filter(isOwnReport).map((report) => ({ resource, report })));
  }
  return found;
}
