/** Brings the reports in the API server to the planned state, one paced write at a time. */
import { isDeepStrictEqual } from 'node:util';

import { isOwnReport, type Report } from '../../admission/reports/report.ts';
import { counted } from '../../json/counted.ts';
import { messageOf } from '../../json/error-message.ts';
import { keyOf } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { sleep, type Clock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import type { Log } from '../../log.ts';
import { refusable, WriteRefused } from '../write-refused.ts';
import type { StoredReport } from './report-kinds.ts';

export interface WriteOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly clock: Pick<Clock, 'monotonic' | 'after' | 'now'>;
  /** Keys of reports with our name that others wrote, and that were logged. */
  readonly foreign: Set<string>;
  readonly log: Log;
}

/** The pause after each write, in milliseconds: fewer than 20 writes a second. */
const PAUSE_MS = 55;
/** A missing permission would otherwise cost a refused write for each report. */
const MAX_FAILURES = 10;
/** The manifest that grants all permissions for reports. */
export const REPORTS_ROLE = 'deploy/components/policy-reports/role.yaml';

export interface WrittenReports {
  readonly written: number;
  readonly deleted: number;
}

/**
 * @param wanted the reports to write, all in one format
 * @param stored the reports of Gatehouse in all formats; those that are not wanted are deleted
 * @throws after the other writes, when a write failed
 */
export async function writeReports(
  wanted: readonly { readonly resource: Resource; readonly report: Report }[],
  stored: readonly StoredReport[],
  options: WriteOptions,
  signal: AbortSignal,
): Promise<WrittenReports> {
  const failures: unknown[] = [];
  const attempt = async (write: () => Promise<boolean>): Promise<number> => {
    if (failures.length >= MAX_FAILURES) return 0;
    try {
      if (!(await refusable(REPORTS_ROLE, write))) return 0;
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

/** Whether a write was necessary. */
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
    'a report with the name of a report of Gatehouse belongs to someone else and stays as it is: without the label app.kubernetes.io/managed-by=gatehouse, Gatehouse does not write it',
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
