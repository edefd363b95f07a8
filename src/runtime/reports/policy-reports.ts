/**
 * On the leader, with --policy-reports: writes the findings of the audit as Reports (openreports.io) or, where these are
 * not served, as PolicyReports (wgpolicyk8s.io). Moves to the preferred format when the API server begins to serve it.
 */
import { hasAudit } from '../../admission/policy/audit.ts';
import type { PolicyFindings } from '../../admission/reports/findings.ts';
import { planReports } from '../../admission/reports/plan-reports.ts';
import { renderReport, timesOf } from '../../admission/reports/report.ts';
import { counted } from '../../json/counted.ts';
import { systemClock } from '../../kube/clock.ts';
import { atMostEvery } from '../at-most-every.ts';
import {
  inLocalTime,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
} from '../controller.ts';
import type { Namespaces } from '../namespaces.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeClient } from '../../kube/client.ts';
import { refusable } from '../write-refused.ts';
import type { Replica } from '../webhook-process.ts';
import { ownReports, servedFormats, type ServedFormat } from './report-kinds.ts';
import { REPORTS_ROLE, writeReports, type WriteOptions } from './write-reports.ts';

export interface PolicyReportsOptions extends Omit<WriteOptions, 'client' | 'foreign'> {
  readonly client: WriteOptions['client'] & Pick<KubeClient, 'listAll'>;
  readonly discovery: Pick<Discovery, 'servedIn'>;
  readonly namespaces: Namespaces;
  /** Replaced by another object when the audit of the policy has ended again. */
  readonly findings: () => readonly PolicyFindings[];
  /** Policies in force whose first audit by this leader has not ended. */
  readonly pending: () => readonly string[];
  readonly now: () => Date;
}

/** How often to ask which format is served, in milliseconds. Discovery caches the answer for five seconds. */
const POLL_MS = 15_000;
/** How often to compare the reports although nothing is known to have changed: users can edit and delete them. */
const COMPARE_MS = 10 * 60_000;
/** A new leader knows nothing yet. It waits this long for the first audits, before it replaces the reports. */
const PATIENCE_MS = 10 * 60_000;

/** What the reports in the API server agree with. */
interface Settled {
  readonly group: string;
  readonly findings: readonly PolicyFindings[];
  readonly at: number;
}

export function createPolicyReportsReconciler(options: PolicyReportsOptions): Reconcile {
  const { clock, log, now } = options;
  const startedAt = clock.monotonic();
  const foreign = new Set<string>();
  const reportMissing = logOnce(() => {
    log.warn(
      { groups: ['openreports.io/v1alpha1', 'wgpolicyk8s.io/v1alpha2'] },
      'the API server serves no kind of policy report: install the CRDs of OpenReports, or run without --policy-reports',
    );
  });
  let settled: Settled | undefined;
  return async (_key, signal) => {
    const again = requeueIn(POLL_MS, now());
    if (options.pending().length > 0 && clock.monotonic() - startedAt < PATIENCE_MS) return again;
    const formats = await servedFormats(options.discovery, signal);
    const [preferred] = formats;
    reportMissing(preferred === undefined);
    if (preferred === undefined) return again;
    const findings = options.findings();
    const { group } = preferred.format;
    const isKnown = settled?.group === group && sameItems(settled.findings, findings);
    if (isKnown && clock.monotonic() - (settled?.at ?? 0) < COMPARE_MS) return again;
    settled = undefined;
    await update(findings, preferred, formats, { ...options, foreign }, signal);
    settled = { group, findings, at: clock.monotonic() };
    return again;
  };
}

async function update(
  findings: readonly PolicyFindings[],
  { format, namespaced, cluster }: ServedFormat,
  formats: readonly ServedFormat[],
  options: PolicyReportsOptions & Pick<WriteOptions, 'foreign'>,
  signal: AbortSignal,
): Promise<void> {
  const { client, namespaces, log, now } = options;
  const lists = [];
  for (const served of formats)
    lists.push(await refusable(REPORTS_ROLE, () => ownReports(client, served, namespaces, signal)));
  const stored = lists.flat();
  const timeOf = timesOf(
    stored.map(({ report }) => report),
    now(),
  );
  const wanted = planReports(findings).map((planned) => ({
    resource: planned.namespace === '' ? cluster : namespaced,
    report: renderReport(planned, format, timeOf),
  }));
  const { written, deleted } = await writeReports(wanted, stored, options, signal);
  if (written + deleted > 0)
    log.info({ group: format.group, written, deleted }, `wrote ${counted(written, 'policy report')}`);
}

const sameItems = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((item, index) => item === b[index]);

/** Calls `tell` when a state begins. */
function logOnce(tell: () => void): (isSo: boolean) => void {
  let was = false;
  return (isSo) => {
    if (isSo && !was) tell();
    was = isSo;
  };
}

/** A write takes about 60 ms: a thousand reports take a minute. */
const TIMEOUT_MS = 5 * 60_000;
/** Many audits end at about the same time, for example when a leader starts. */
const GATHER_MS = 5_000;
const KEY = 'reports';

/** @param findings those of the audit, by policy */
export function startPolicyReports(
  context: LeaderContext,
  { registry }: Pick<Replica, 'registry'>,
  findings: ReadonlyMap<string, PolicyFindings>,
  signal: AbortSignal,
) {
  const { client, discovery, namespaces, serverClock, log } = context;
  const reconcile = createPolicyReportsReconciler({
    ...{ client, discovery, namespaces, log, clock: systemClock, now: serverClock.now },
    findings: () => [...findings.values()],
    pending: () =>
      registry
        .inForce()
        .filter(
          (policy) => hasAudit(policy) && policy.undecidable === undefined && !findings.has(policy.name),
        )
        .map(({ name }) => name),
  });
  const controller = startController(
    context,
    { name: 'policy-reports', timeoutMs: TIMEOUT_MS, reconcile: inLocalTime(reconcile, serverClock.now) },
    signal,
  );
  const refresh = atMostEvery(GATHER_MS, () => controller.add(KEY), systemClock, signal);
  refresh();
  return { refresh, stopped: controller.stopped };
}
