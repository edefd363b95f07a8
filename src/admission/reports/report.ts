import type { KubeObject } from '../../json/kube-object.ts';
import { OWN_LABELS } from '../../api/group.ts';

export type Outcome = 'pass' | 'fail' | 'warn' | 'error' | 'skip';

export type Summary = Readonly<Record<Outcome, number>>;

export interface ReportResource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

export interface ReportResult {
  readonly source?: string;
  readonly policy: string;
  readonly rule?: string;
  readonly result: Outcome;
  readonly message: string;
  readonly resources?: readonly ReportResource[];
  readonly properties?: Readonly<Record<string, string>>;
  readonly timestamp?: { readonly seconds: number; readonly nanos: number };
}

export interface Report extends KubeObject {
  readonly source?: string;
  readonly scope?: ReportResource;
  readonly summary: Summary;
  readonly results: readonly ReportResult[];
}

/** A report in neither format, without the times. The namespace of the ClusterReport is empty. */
export interface PlannedReport {
  readonly namespace: string;
  readonly name: string;
  readonly summary: Summary;
  readonly results: readonly Omit<ReportResult, 'timestamp' | 'source'>[];
}

export interface ReportFormat {
  readonly group: string;
  readonly version: string;
  readonly namespaced: { readonly resource: string; readonly kind: string };
  readonly cluster: { readonly resource: string; readonly kind: string };
  /** OpenReports names the source once; the older format only in each result. */
  readonly sourceIn: 'report' | 'results';
}

export const REPORT_FORMATS: readonly ReportFormat[] = [
  {
    group: 'openreports.io',
    version: 'v1alpha1',
    namespaced: { resource: 'reports', kind: 'Report' },
    cluster: { resource: 'clusterreports', kind: 'ClusterReport' },
    sourceIn: 'report',
  },
  {
    group: 'wgpolicyk8s.io',
    version: 'v1alpha2',
    namespaced: { resource: 'policyreports', kind: 'PolicyReport' },
    cluster: { resource: 'clusterpolicyreports', kind: 'ClusterPolicyReport' },
    sourceIn: 'results',
  },
];

export const SOURCE = 'gatehouse';
/** The other reports of a namespace are `gatehouse-audit-2` and so on. */
export const REPORT_NAME = 'gatehouse-audit';
export const REPORT_SELECTOR = 'app.kubernetes.io/managed-by=gatehouse';

const OWN_NAME = new RegExp(`^${REPORT_NAME}(?:-(?:[2-9]|[1-9]\\d+))?$`);

/** Whether Gatehouse wrote the report in this place. It changes and deletes only these. A copy has the scope of the original. */
export const isOwnReport = ({ metadata, scope }: Pick<Report, 'metadata' | 'scope'>): boolean =>
  OWN_NAME.test(metadata?.name ?? '') &&
  metadata?.labels?.['app.kubernetes.io/managed-by'] === 'gatehouse' &&
  scope?.name === metadata.namespace;

/** The object to write. @param timeOf when the violation was first found */
export function renderReport(
  { namespace, name, summary, results }: PlannedReport,
  { group, version, sourceIn, ...kinds }: ReportFormat,
  timeOf: (result: ReportResult) => number,
): Report {
  const { kind } = namespace === '' ? kinds.cluster : kinds.namespaced;
  const ofResult = sourceIn === 'results' ? { source: SOURCE } : {};
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: { ...(namespace === '' ? {} : { namespace }), name, labels: OWN_LABELS },
    ...(sourceIn === 'report' ? { source: SOURCE } : {}),
    ...(namespace === '' ? {} : { scope: { apiVersion: 'v1', kind: 'Namespace', name: namespace } }),
    summary,
    results: results.map((result) => ({
      ...ofResult,
      ...result,
      timestamp: { seconds: timeOf(result), nanos: 0 },
    })),
  };
}

/** The known time of each result, so that an unchanged result keeps its time and causes no write. */
export function timesOf(reports: readonly Report[], now: Date): (result: ReportResult) => number {
  const known = new Map<string, number>();
  for (const { results } of reports)
    for (const result of (results as readonly ReportResult[] | undefined) ?? []) {
      const seconds = result.timestamp?.seconds;
      if (typeof seconds === 'number') known.set(identityOf(result), seconds);
    }
  const seconds = Math.floor(now.getTime() / 1000);
  return (result) => known.get(identityOf(result)) ?? seconds;
}

function identityOf({ policy, rule = '', result, message, resources = [] }: ReportResult): string {
  const [of] = resources;
  return JSON.stringify([policy, rule, result, message, of?.apiVersion, of?.kind, of?.namespace, of?.name]);
}
