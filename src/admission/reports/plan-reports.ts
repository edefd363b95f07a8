/** One report for each namespace with violations and one for the cluster, which needs fewer writes than reports of objects. */
import { counted } from '../../json/counted.ts';
import { compareText } from '../../json/json.ts';
import { shorten } from '../../json/printable.ts';
import type { Finding, PolicyFindings } from './findings.ts';
import { REPORT_NAME, SOURCE, type PlannedReport, type Summary } from './report.ts';

export interface ReportLimits {
  readonly totalBytes: number;
  /** One report, in bytes. etcd refuses 1.5 MiB. */
  readonly reportBytes: number;
  readonly namespaces: number;
}

export const REPORT_LIMITS: ReportLimits = { totalBytes: 2_000_000, reportBytes: 500_000, namespaces: 1_000 };

/** Reserved for each report: metadata with managedFields, scope, summary and the note on what is left out. */
const REPORT_OVERHEAD = 1_280;
const RESULT_OVERHEAD = 80;
const MAX_PROBLEMS = 100;
const LONGEST_PROBLEM = 256;

type Result = PlannedReport['results'][number];

interface Sized {
  readonly result: Result;
  readonly bytes: number;
}

interface Place {
  readonly namespace: string;
  readonly total: { fail: number; warn: number; error: number };
  readonly results: Sized[];
}

export function planReports(
  findings: readonly PolicyFindings[],
  limits: ReportLimits = REPORT_LIMITS,
): readonly PlannedReport[] {
  const places = placesOf(findings);
  const cluster = places.get('') ?? emptyPlace('');
  places.delete('');
  const bySize = [...places.values()].toSorted(
    (a, b) => violationsIn(b) - violationsIn(a) || compareText(a.namespace, b.namespace),
  );
  const kept = bySize.slice(0, limits.namespaces);
  const notes = noteOnNamespaces(bySize.slice(limits.namespaces), limits);
  const hasCluster = violationsIn(cluster) + cluster.total.error + notes.length > 0;
  const all = [...(hasCluster ? [cluster] : []), ...kept];
  // A split adds reports: at most one for each `reportBytes`, and one more because parts are not filled to the last byte.
  const splits = Math.ceil(limits.totalBytes / limits.reportBytes) + 1;
  const room = limits.totalBytes - (all.length + splits) * REPORT_OVERHEAD;
  const shares = fairShares(
    all.map(({ results }) => results.reduce((sum, { bytes }) => sum + bytes, 0)),
    Math.max(0, room),
  );
  return all
    .flatMap((place, index) => reportsOf(place, shares[index] ?? 0, place === cluster ? notes : [], limits))
    .toSorted((a, b) => compareText(a.namespace, b.namespace));
}

const emptyPlace = (namespace: string): Place => ({
  namespace,
  total: { fail: 0, warn: 0, error: 0 },
  results: [],
});
const violationsIn = ({ total }: Place): number => total.fail + total.warn;

function placesOf(findings: readonly PolicyFindings[]): Map<string, Place> {
  const places = new Map<string, Place>();
  const at = (namespace: string): Place => {
    const place = places.get(namespace) ?? emptyPlace(namespace);
    places.set(namespace, place);
    return place;
  };
  const ordered = findings.toSorted((a, b) => compareText(a.policy, b.policy));
  const incomplete = ordered.filter(({ problem }) => problem !== undefined);
  for (const { policy, problem = '' } of incomplete.slice(0, MAX_PROBLEMS)) {
    const message = shorten(problem, LONGEST_PROBLEM);
    at('').results.push(sized({ policy, result: 'error', message }));
  }
  if (incomplete.length > 0) at('').total.error = incomplete.length;
  for (const { policy, enforcement, counts, listed } of ordered) {
    const outcome = enforcement === 'Warn' ? 'warn' : 'fail';
    for (const [namespace, count] of counts) at(namespace).total[outcome] += count;
    const sorted = listed.toSorted((a, b) => compareText(sortKey(a), sortKey(b)));
    for (const finding of sorted)
      at(finding.namespace).results.push(sized(toResult(policy, outcome, finding)));
  }
  return places;
}

/** The order must not depend on the order in which the API server lists, or an unchanged report would change. */
const sortKey = ({ kind, apiVersion, name, rule = '', message }: Finding): string =>
  [kind, apiVersion, name, rule, message].join('\n');

function toResult(
  policy: string,
  result: 'fail' | 'warn',
  { namespace, apiVersion, kind, name, rule, message }: Finding,
): Result {
  const where = namespace === '' ? {} : { namespace };
  return {
    policy,
    ...(rule === undefined ? {} : { rule }),
    result,
    message,
    resources: [{ apiVersion, kind, ...where, name }],
  };
}

const sized = (result: Result): Sized => ({
  result,
  bytes: Buffer.byteLength(JSON.stringify(result)) + RESULT_OVERHEAD,
});

function noteOnNamespaces(left: readonly Place[], { namespaces }: ReportLimits): readonly Result[] {
  if (left.length === 0) return [];
  const omitted = left.reduce((sum, place) => sum + violationsIn(place), 0);
  const message =
    `${counted(omitted, 'violation')} in ${counted(left.length, 'namespace')} without a report, because only the ` +
    `${namespaces} namespaces with most violations have one`;
  return [note('namespaces', message, { omitted: String(omitted), namespaces: String(left.length) })];
}

const note = (rule: string, message: string, properties: Readonly<Record<string, string>>): Result => ({
  policy: SOURCE,
  rule,
  result: 'skip',
  message,
  properties,
});

function reportsOf(
  place: Place,
  share: number,
  notes: readonly Result[],
  { reportBytes }: ReportLimits,
): readonly PlannedReport[] {
  const { namespace, total } = place;
  const parts: Result[][] = [[]];
  let listed = 0;
  let left = share;
  let leftInPart = reportBytes - REPORT_OVERHEAD;
  for (const { result, bytes } of place.results) {
    if (bytes > left) break;
    if (bytes > leftInPart) {
      parts.push([]);
      leftInPart = reportBytes - REPORT_OVERHEAD;
    }
    parts.at(-1)?.push(result);
    left -= bytes;
    leftInPart -= bytes;
    listed += 1;
  }
  const omitted = violationsIn(place) + total.error - listed;
  const before = parts.slice(0, -1).map(countOf);
  const last = [...(parts.at(-1) ?? []), ...notes, ...(omitted > 0 ? [noteOnOmitted(omitted, listed)] : [])];
  const rest = (outcome: 'fail' | 'warn' | 'error') =>
    before.reduce((sum, summary) => sum - summary[outcome], total[outcome]);
  const summary = { ...countOf(last), fail: rest('fail'), warn: rest('warn'), error: rest('error') };
  const summaries = [...before, summary];
  return summaries.map((one, index) => ({
    namespace,
    name: index === 0 ? REPORT_NAME : `${REPORT_NAME}-${index + 1}`,
    summary: one,
    results: index === before.length ? last : (parts[index] ?? []),
  }));
}

const noteOnOmitted = (omitted: number, listed: number): Result =>
  note(
    'size',
    `${counted(omitted, 'result')} not listed, but counted in the summary, because all reports share a size limit`,
    { omitted: String(omitted), listed: String(listed) },
  );

function countOf(results: readonly Result[]): Summary {
  const summary = { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
  for (const { result } of results) summary[result] += 1;
  return summary;
}

/** Divides `room`: each gets what it needs, or an equal share of what smaller needs leave. */
function fairShares(needs: readonly number[], room: number): readonly number[] {
  const shares = needs.map(() => 0);
  const order = needs.map((need, index) => ({ need, index })).toSorted((a, b) => a.need - b.need);
  let left = room;
  for (const [done, { need, index }] of order.entries()) {
    const share = Math.min(need, Math.floor(left / (order.length - done)));
    shares[index] = share;
    left -= share;
  }
  return shares;
}
