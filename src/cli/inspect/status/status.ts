/** `gatehouse status`: reads a cluster as the user of the kubeconfig, and reports the health of Gatehouse. */
import type { Compat } from '../../../pki/injection/request.ts';
import { withCluster } from '../../connect.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import {
  formatData,
  hasColours,
  print,
  formatTable,
  GAP,
  paint,
  type Cell,
  type Row,
} from '../../terminal/output.ts';
import { readCluster } from '../read-cluster/read-cluster.ts';
import { statusReport, type StatusReport } from './report/status-report.ts';
import { objectKey } from '../../../json/kube-object.ts';
import { printable } from '../../../json/printable.ts';
import { describeUnread, type Listing } from '../read-cluster/reading.ts';
import {
  auditNote,
  describeHandlers,
  describeLeader,
  describeRestrictions,
  generationCells,
  nextGeneration,
  endpointCounts,
  policyCells,
  controllerCells,
  controllerNote,
  describeControllers,
  servingCertCells,
  staleCells,
  targetCells,
  timeLine,
} from './cells.ts';
import { relative } from './times.ts';
import { adviceOn } from './report/policies.ts';

export interface StatusFlags extends ClusterFlags {
  readonly namespace: string;
  readonly compat: readonly Compat[];
  readonly output: OutputFormat;
}

export async function status(flags: StatusFlags): Promise<0 | 1> {
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
}

interface Style {
  readonly colours: boolean;
  readonly columns: number | undefined;
  readonly now: Date;
}

/** @param columns of the terminal; undefined: a file or a pipe */
export function formatStatus(report: StatusReport, colours: boolean, columns?: number): string {
  const { server, version, namespace, checkedAt } = report;
  const style = { colours, columns, now: new Date(checkedAt) };
  const parts = [
    leader,
    authority,
    servingCerts,
    servedCerts,
    injectionTargets,
    admissionPolicies,
    restoreWindows,
    userControllers,
  ];
  const blocks = [
    [
      printable(`Gatehouse in namespace ${namespace} of ${server} (${version}), ${checkedAt}`),
      ...describeRestrictions(report).map(printable),
    ],
    ...parts.map((part) => part(report, style)).filter((lines) => lines.length > 0),
    verdict(report, colours),
  ];
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function verdict({ attention, healthy }: StatusReport, colours: boolean): readonly string[] {
  if (healthy) return [paint({ text: 'Gatehouse is healthy.', tone: 'good' }, colours)];
  if (attention.length === 0)
    return [paint({ text: 'No problems found, but some parts could not be read.', tone: 'warn' }, colours)];
  return [
    paint({ text: 'Needs attention:', tone: 'bad' }, colours),
    ...attention.map(({ object, message, command }) =>
      printable(`  - ${object}: ${message}${command === undefined ? '' : `: ${command}`}`),
    ),
  ];
}

function leader(report: StatusReport, style: Style): readonly string[] {
  const { leader: part } = report;
  const rows = part.replicas.map(({ name, process, ready, leads, node, image, restarts }) =>
    row(
      [
        name,
        process,
        ready ? { text: 'yes', tone: 'good' } : { text: 'no', tone: 'bad' },
        ...[leads ? 'yes' : '', String(restarts), node ?? '–'],
      ],
      image ?? '–',
    ),
  );
  const title = `Leader: ${paint(describeLeader(report, style.now), style.colours)}`.trimEnd();
  return section(
    title,
    part,
    ['REPLICA', 'PROCESS', 'READY', 'LEADS', 'RESTARTS', 'NODE', 'IMAGE'],
    rows,
    style,
  );
}

const BAR_WIDTH = 40;
const MIN_BAR_WIDTH = 10;

const STROKES = { pending: '+', active: '=', retiring: '-', trusted: '=' } as const;

function authority({ authority: part }: StatusReport, style: Style): readonly string[] {
  const { source, phase, generations } = part;
  const lifetimes = generations.map(({ state, notBefore, notAfter }) => ({
    from: new Date(notBefore),
    to: new Date(notAfter),
    stroke: STROKES[state],
  }));
  const cellsOf = (daysOnly: boolean) =>
    generations.map((generation) => generationCells(generation, style.now, daysOnly));
  const left = (daysOnly: boolean): number =>
    (style.columns ?? Infinity) - widthOf(GENERATION_HEADINGS, cellsOf(daysOnly));
  const isNarrow = left(false) < BAR_WIDTH;
  const { bars, from, to } = timeLine(
    lifetimes,
    style.now,
    Math.max(MIN_BAR_WIDTH, Math.min(BAR_WIDTH, left(isNarrow))),
  );
  const rows = cellsOf(isNarrow).map((cells, index) => row(cells, bars[index] ?? ''));
  const scale = isNarrow ? '| is now' : `${day(from)} to ${day(to)}, | is now`;
  const state = phase === undefined ? '' : `: ${phase}${nextGeneration(generations, style.now)}`;
  const published = source === 'ConfigMap' ? ', as published; the Secret has the states' : '';
  const headings = [...GENERATION_HEADINGS, scale];
  return section(`Certificate authority${state}${published}`, part, headings, rows, style);
}

const GENERATION_HEADINGS = ['GENERATION', 'STATE', 'FROM', 'TO', 'ENDS'];

const widthOf = (headings: readonly string[], rows: readonly (readonly Cell[])[]): number =>
  headings.reduce(
    (sum, heading, column) =>
      sum +
      Math.max(heading.length, ...rows.map((cells) => paint(cells[column] ?? '', false).length)) +
      GAP.length,
    '  '.length,
  );

const day = (date: Date): string => date.toISOString().slice(0, 10);

function servingCerts({ servingCerts: part }: StatusReport, style: Style): readonly string[] {
  const rows = part.items.map((item) =>
    row(servingCertCells(item, style.now), item.message ?? `signed by ${item.signedBy ?? 'an unknown key'}`),
  );
  const headings = ['SECRET', 'SERVICE', 'STATE', 'ENDS', 'RENEWAL', ''];
  return section(`Serving certificates: ${count(part)}`, part, headings, rows, style);
}

function servedCerts({ servedCerts: part }: StatusReport, style: Style): readonly string[] {
  const { endpoints, items, unread } = part;
  if (endpoints === undefined && unread.length === 0) return [];
  const counts = endpoints === undefined ? '' : `: ${endpointCounts(part, style.now)}`;
  const rows = items.map((item) => row(staleCells(item, style.now), ''));
  const headings = ['SERVICE', 'SECRET', 'STALE SINCE', 'ENDS', 'PODS', ''];
  return section(`Certificates that servers present${counts}`, part, headings, rows, style);
}

function injectionTargets({ injectionTargets: part }: StatusReport, style: Style): readonly string[] {
  const rows = part.items.map((item) =>
    row([item.kind, objectKey(item), ...targetCells(item)], item.message ?? ''),
  );
  const headings = ['KIND', 'NAME', 'CABUNDLE', 'FROM', ''];
  return section(`Injection targets: ${count(part)}`, part, headings, rows, style);
}

function admissionPolicies(
  { admissionPolicies: part, handlers }: StatusReport,
  style: Style,
): readonly string[] {
  const rows = part.items.map((policy) => {
    const { name, violations, message } = policy;
    const advice = message === undefined ? undefined : adviceOn(name, message);
    const note = auditNote(policy, style.now);
    const violating: Cell =
      violations === undefined ? '–' : { text: String(violations), tone: violations === 0 ? 'good' : 'warn' };
    const command = advice?.command === undefined ? [] : [advice.command];
    return row([...policyCells(policy), violating], ...(advice?.message ?? note).split('\n'), ...command);
  });
  const headings = ['NAME', 'READY', 'INSTALLED', 'ENFORCEMENT', 'VIOLATIONS', ''];
  const title = `AdmissionPolicies: ${count(part)}`;
  const names = handlers.length === 0 ? [] : [printable(`Handlers: ${describeHandlers(handlers)}`)];
  return [...section(title, part, headings, rows, style), ...names];
}

function restoreWindows({ restoreWindows: part }: StatusReport, style: Style): readonly string[] {
  const rows = part.items.map(({ name, source, phase, since, expiresAt, violations }) =>
    row(
      [
        name,
        { text: phase, tone: phase === 'CompletedWithViolations' ? 'bad' : 'warn' },
        ...[relative(since, style.now), relative(expiresAt, style.now)],
        violations?.toString() ?? 'unknown',
      ],
      source,
    ),
  );
  const counts = part.unread.length > 0 ? '' : `: ${rows.length} of ${part.total} open or with violations`;
  const headings = ['NAME', 'PHASE', 'OPENED', 'EXPIRES', 'VIOLATIONS', 'SOURCE'];
  return section(`RestoreWindows${counts}`, part, headings, rows, style);
}

function userControllers({ userControllers: part }: StatusReport, style: Style): readonly string[] {
  const { items, unread } = part;
  if (items.length === 0 && unread.length === 0) return [];
  const rows = items.map((item) => row(controllerCells(item, style.now), controllerNote(item, style.now)));
  const stale = describeControllers(part, style.now);
  const title = `Controllers of users: ${count(part)}${stale === '' ? '' : ` (${stale})`}`;
  const headings = ['NAME', 'WATCHES', 'OBJECTS', 'IN WORK', 'FAILING', 'LAST PASS', ''];
  return section(printable(title), part, headings, rows, style);
}

const row = (cells: readonly Cell[], ...lines: readonly string[]): Row => ({ cells, lines });

/** When some objects could not be read, the number is not the total. */
function count({ unread, items }: Listing<unknown>): string {
  if (unread.length > 0) return `${items.length} readable`;
  return items.length === 0 ? 'none' : String(items.length);
}

function section(
  title: string,
  { unread }: Pick<Listing<unknown>, 'unread'>,
  headings: readonly string[],
  rows: readonly Row[],
  { colours }: Style,
): readonly string[] {
  const table = rows.length === 0 ? [] : formatTable(headings, rows, colours).split('\n');
  return [
    title,
    ...unread.map((part) => printable(`  (${describeUnread(part)})`)),
    ...table.map((line) => `  ${line}`),
  ];
}
