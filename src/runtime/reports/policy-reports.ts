/** Writes the findings of the audit as Reports (openreports.io) or, where not served, PolicyReports (wgpolicyk8s.io). */
import { isDeepStrictEqual } from 'node:util';

import { hasAudit } from '../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { PolicyFindings } from '../../admission/reports/findings.ts';
import { planReports } from '../../admission/reports/plan-reports.ts';
import {
  isOwnReport,
  renderReport,
  type Report,
  REPORT_FORMATS,
  REPORT_SELECTOR,
  type ReportFormat,
  timesOf,
} from '../../admission/reports/report.ts';
import { counted } from '../../json/counted.ts';
import { atMostEvery, type Clock, sleep, systemClock } from '../../kube/clock.ts';
import { type LeaderContext, type Reconcile, requeueIn, startController } from '../controller.ts';
import { listIn, type Namespaces } from '../namespaces.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeClient } from '../../kube/client.ts';
import { refusable, WriteRefused } from '../write-refused.ts';
import { messageOf } from '../../json/abort.ts';
import { keyOf } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { Resource } from '../../kube/object.ts';
import type { Log } from '../../log.ts';
import type { Audit } from '../policies/policy-audit.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';

interface PolicyReportsOptions extends Omit<WriteOptions, 'client' | 'foreign'> {
  readonly client: WriteOptions['client'] & Pick<KubeClient, 'listAll'>;
  readonly discovery: Pick<Discovery, 'servedIn'>;
  readonly namespaces: Namespaces;
  /** Replaced by another object when the audit of the policy has ended again. */
  readonly findings: () => readonly PolicyFindings[];
  readonly pending: () => readonly string[];
  readonly now: () => Date;
}

/** How often to ask which format is served, in milliseconds. Discovery caches the answer for five seconds. */
const POLL_MS = 15_000;
/** How often to compare the reports although nothing is known to have changed: users can edit and delete them. */
const COMPARE_MS = 10 * 60_000;
/** A new leader knows nothing yet. It waits this long for the first audits, before it replaces the reports. */
const PATIENCE_MS = 10 * 60_000;

interface Settled {
  readonly group: string;
  readonly findings: readonly PolicyFindings[];
  readonly at: number;
}

const UNSERVED =
  'the API server serves no kind of policy report: install the CRDs of OpenReports, or run without --policy-reports';

export function createPolicyReportsReconciler(options: PolicyReportsOptions): Reconcile {
  const { clock, log, now } = options;
  const startedAt = clock.monotonic();
  const foreign = new Set<string>();
  let isMissing = false;
  let settled: Settled | undefined;
  return async (_key, signal) => {
    const again = requeueIn(POLL_MS, now());
    if (options.pending().length > 0 && clock.monotonic() - startedAt < PATIENCE_MS) return again;
    const formats = await servedFormats(options.discovery, signal);
    const [preferred] = formats;
    const wasMissing = isMissing;
    isMissing = preferred === undefined;
    if (preferred === undefined) {
      if (!wasMissing) log.warn({ groups: ['openreports.io/v1alpha1', 'wgpolicyk8s.io/v1alpha2'] }, UNSERVED);
      return again;
    }
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
    lists.push(await refusable(() => ownReports(client, served, namespaces, signal)));
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

/** A write takes about 60 ms: a thousand reports take a minute. */
const TIMEOUT_MS = 5 * 60_000;
/** Many audits end at about the same time, for example when a leader starts. */
const GATHER_MS = 5_000;
const KEY = 'reports';

export function startPolicyReports(
  context: LeaderContext,
  registry: Pick<PolicyRegistry, 'inForce'>,
  audits: ReadonlyMap<string, Audit>,
  signal: AbortSignal,
) {
  const { client, discovery, namespaces, serverClock, log } = context;
  const isPending = (policy: CompiledPolicy) =>
    hasAudit(policy) && policy.undecidable === undefined && audits.get(policy.name)?.findings === undefined;
  const reconcile = createPolicyReportsReconciler({
    client,
    discovery,
    namespaces,
    log,
    clock: systemClock,
    now: serverClock.now,
    findings: () => [...audits.values()].flatMap(({ findings }) => findings ?? []),
    pending: () =>
      registry
        .inForce()
        .filter(isPending)
        .map(({ name }) => name),
  });
  const options = { name: 'policy-reports', timeoutMs: TIMEOUT_MS, reconcile, serverNow: serverClock.now };
  const controller = startController(context, options, signal);
  const refresh = atMostEvery(GATHER_MS, () => controller.add(KEY), systemClock, signal);
  refresh();
  return { refresh, stopped: controller.stopped };
}

interface WriteOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly clock: Pick<Clock, 'monotonic' | 'after' | 'now'>;
  readonly foreign: Set<string>;
  readonly log: Log;
}

const PAUSE_MS = 55;
/** A missing permission would otherwise cost a refused write for each report. */
const MAX_FAILURES = 10;

/** @param stored in all formats; those that are not wanted are deleted. @throws after the other writes */
async function writeReports(
  wanted: readonly { readonly resource: Resource; readonly report: Report }[],
  stored: readonly StoredReport[],
  options: WriteOptions,
  signal: AbortSignal,
) {
  const failures: unknown[] = [];
  const attempt = async (write: () => Promise<boolean>): Promise<number> => {
    if (failures.length >= MAX_FAILURES) return 0;
    try {
      if (!(await refusable(write))) return 0;
      await sleep(options.clock, PAUSE_MS, signal);
      return 1;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof WriteRefused) && !isConflict(error) && !isNotFound(error)) throw error;
      failures.push(error);
      await sleep(options.clock, PAUSE_MS, signal);
      return 0;
    }
  };
  const existing = new Map(stored.map((one) => [idOf(one), one]));
  let written = 0;
  let deleted = 0;
  for (const { resource, report } of wanted) {
    const id = idOf({ resource, report });
    const before = existing.get(id)?.report;
    existing.delete(id);
    written += await attempt(() => writeOne(resource, report, before, options, signal));
  }
  for (const { resource, report } of existing.values())
    deleted += await attempt(() => deleteOne(resource, report, options, signal));
  if (failures.length > 0) {
    const [first] = failures;
    const message = `${counted(failures.length, 'report')} could not be written or deleted: ${messageOf(first)}`;
    throw new Error(message, { cause: first });
  }
  return { written, deleted };
}

const idOf = ({ resource, report }: StoredReport): string =>
  `${resource.group}/${resource.kind}/${keyOf(report)}`;

async function writeOne(
  resource: Resource,
  wanted: Report,
  known: Report | undefined,
  options: WriteOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { client } = options;
  const { namespace, name = '' } = wanted.metadata ?? {};
  const before = known ?? (await client.get<Report>(resource, { namespace, name }, { signal }));
  if (before === undefined) {
    await client.create(resource, wanted, { signal });
    return true;
  }
  if (known === undefined && !isOwnReport(before)) {
    logForeign(resource, before, options);
    return false;
  }
  const labels = { ...before.metadata?.labels, ...wanted.metadata?.labels };
  if (isDeepStrictEqual(labels, before.metadata?.labels) && isSame(before, wanted)) return false;
  await client.replace(resource, { ...wanted, metadata: { ...before.metadata, labels } }, { signal });
  return true;
}

const CONTENT = ['source', 'scope', 'summary', 'results'] as const;

const isSame = (before: Report, wanted: Report): boolean =>
  isDeepStrictEqual(pick(before, ...CONTENT), pick(wanted, ...CONTENT));

function logForeign(resource: Resource, report: Report, { foreign, log }: WriteOptions): void {
  const id = idOf({ resource, report });
  if (foreign.has(id)) return;
  foreign.add(id);
  log.warn(
    { kind: resource.kind, report: keyOf(report) },
    'the report belongs to another client or is a copy, so Gatehouse leaves it unchanged: delete it',
  );
}

async function deleteOne(
  resource: Resource,
  { metadata }: Report,
  { client }: WriteOptions,
  signal: AbortSignal,
): Promise<boolean> {
  const { namespace, name = '', uid, resourceVersion } = metadata ?? {};
  const preconditions = { uid, resourceVersion };
  const outcome = await client.delete(resource, { namespace, name }, { preconditions, signal });
  return outcome === 'deleted';
}

interface ServedFormat {
  readonly format: ReportFormat;
  readonly namespaced: Resource;
  readonly cluster: Resource;
}

interface StoredReport {
  readonly resource: Resource;
  readonly report: Report;
}

/** The preferred format first. A group that serves only one of its kinds counts as not served. */
async function servedFormats(
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
async function ownReports(
  client: Pick<KubeClient, 'listAll'>,
  { namespaced, cluster }: ServedFormat,
  namespaces: Namespaces,
  signal: AbortSignal,
): Promise<readonly StoredReport[]> {
  const found: StoredReport[] = [];
  for (const resource of [namespaced, cluster]) {
    const options = { labelSelector: REPORT_SELECTOR, signal };
    const reports = await listIn<Report>(client, resource, namespaces, options);
    found.push(...reports.filter(isOwnReport).map((report) => ({ resource, report })));
  }
  return found;
}
