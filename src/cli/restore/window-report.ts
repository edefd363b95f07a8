/** Windows as a table, as JSON and as YAML. docs/restore.md documents the fields of JSON and YAML. */
import { counted } from '../../json/counted.ts';
import { objectKey, type Condition } from '../../json/kube-object.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import type { RestoreReport } from '../../api/restore-report.ts';
import type { RestoreWindow, Violation } from '../../api/restore-window.ts';
import { OPENED_BY } from '../../restore/opener.ts';
import type { OutputFormat } from '../terminal/options.ts';
import { formatData, formatTable } from '../terminal/output.ts';
import { printable } from '../../json/printable.ts';
import { adviceFor, describeRelink, describeViolation } from './advice.ts';

export interface WindowSummary {
  readonly name: string;
  /** `Manual`, or the detector and the object that it has detected, e.g. `velero: Restore velero/r1`. */
  readonly source: string;
  readonly phase: string;
  /** RFC 3339. */
  readonly since: string | undefined;
  readonly expiresAt: string;
  readonly closedAt: string | undefined;
  readonly closeReason: string | undefined;
  /** Undefined before the first sweep. */
  readonly violations: number | undefined;
  /** Number of owner references that the sweep has linked again; undefined before the first sweep. */
  readonly relinked: number | undefined;
}

export interface WindowDetails extends WindowSummary {
  readonly openedBy: string | undefined;
  readonly principals: RestoreWindow['spec']['principals'];
  readonly operations: readonly string[];
  readonly namespaces: readonly string[];
  readonly reason: string | undefined;
  /** The running sweep, if it takes long. */
  readonly currentSweep: NonNullable<RestoreWindow['status']>['currentSweep'];
  readonly lastSweep: NonNullable<RestoreWindow['status']>['lastSweep'];
  readonly conditions: readonly Condition[];
  /** The violations that the window and its RestoreReports list; `violations` is the total number. */
  readonly violationItems: readonly Violation[];
  readonly relinkItems: readonly RelinkItem[];
  readonly advice: readonly string[];
}

export function summaryOf({ metadata, spec, status }: RestoreWindow): WindowSummary {
  const { type = 'Manual', detector, ref } = spec.source ?? {};
  const place = ref?.namespace === undefined ? '' : `${ref.namespace}/`;
  return {
    name: metadata.name ?? '',
    source: ref === undefined ? type : `${detector ?? type}: ${ref.kind} ${place}${ref.name}`,
    phase: status?.phase ?? 'Pending',
    since: status?.openedAt ?? metadata.creationTimestamp,
    expiresAt: spec.expiresAt,
    closedAt: status?.closedAt,
    closeReason: status?.closeReason,
    violations: status?.violations?.total,
    relinked: status?.relink?.linked,
  };
}

/** @param reports the RestoreReports of this window */
export function detailsOf(window: RestoreWindow, reports: readonly RestoreReport[]): WindowDetails {
  const { metadata, spec, status } = window;
  const parts = reports.toSorted((a, b) => a.spec.part - b.spec.part).map((report) => report.spec);
  return {
    ...summaryOf(window),
    openedBy: metadata.annotations?.[OPENED_BY],
    principals: spec.principals,
    operations: spec.match?.operations ?? ['CREATE', 'UPDATE'],
    namespaces: spec.match?.namespaces?.include ?? [],
    reason: spec.reason,
    currentSweep: status?.currentSweep,
    lastSweep: status?.lastSweep,
    conditions: status?.conditions ?? [],
    violationItems: distinct(
      [...(status?.violations?.items ?? []), ...parts.flatMap(({ violations = [] }) => violations)],
      ({ policy, reference, check, object, field, reason, target }) => [
        ...[policy, reference, check, object.kind, object.namespace, object.name, field, reason],
        target?.name,
      ],
    ),
    relinkItems: distinct(
      [...(status?.relink?.items ?? []), ...parts.flatMap(({ relink = [] }) => relink)],
      ({ object, owner, field }) => [
        ...[object.kind, object.namespace, object.name],
        ...[owner.kind, owner.name, field],
      ],
    ),
    advice: adviceFor(window),
  };
}

/** RestoreReports may repeat what the window lists. */
function distinct<T>(items: readonly T[], keyOf: (item: T) => readonly unknown[]): readonly T[] {
  const byKey = new Map<string, T>();
  for (const item of items) {
    const key = JSON.stringify(keyOf(item).map((part) => part ?? ''));
    if (!byKey.has(key)) byKey.set(key, item);
  }
  return [...byKey.values()];
}

export function formatList(windows: readonly RestoreWindow[], format: OutputFormat): string {
  const summaries = windows.map(summaryOf).toSorted(newestFirst);
  if (format !== 'table') return formatData({ windows: summaries }, format);
  if (summaries.length === 0)
    return 'There are no RestoreWindows: Gatehouse has detected no restore, and no user has opened a window.\n';
  const closed = summaries.filter(isClosed);
  const hidden = new Set(closed.slice(MAX_CLOSED));
  const shown = summaries.filter((one) => !hidden.has(one));
  const rows = shown.map(({ name, source, phase, since, expiresAt, violations, relinked }) => ({
    cells: [name, source, phase, brief(since), brief(expiresAt), count(violations)],
    lines: [count(relinked)],
  }));
  const more =
    hidden.size === 0
      ? ''
      : `and ${counted(hidden.size, 'older window')} without violations: gatehouse restore status -o json\n`;
  return `${formatTable(LIST_HEADINGS, rows, false)}\n${more}`;
}

/** Closed windows that need no attention are shown up to this number, newest first. */
const MAX_CLOSED = 10;

const isClosed = ({ phase }: WindowSummary): boolean => phase === 'Completed' || phase === 'Refused';

const LIST_HEADINGS = ['NAME', 'SOURCE', 'PHASE', 'SINCE', 'EXPIRES', 'VIOLATIONS', 'RELINKED'];

function newestFirst(a: WindowSummary, b: WindowSummary): number {
  const [first, second] = [a.since ?? '', b.since ?? ''];
  return first < second ? 1 : first > second ? -1 : 0;
}

export function formatDetails(details: WindowDetails, format: OutputFormat): string {
  if (format !== 'table') return formatData(details, format);
  const table = violationsTable(details);
  const blocks = [
    [`RestoreWindow ${details.name}: ${details.phase}`, ...facts(details)].map(printable).join('\n'),
    ...conditions(details),
    ...(table === undefined ? [] : [table]),
    ...relinked(details),
    ...(details.advice.length === 0
      ? []
      : [['What to do:', ...details.advice.map((line) => `  - ${line}`)].map(printable).join('\n')]),
  ];
  return `${blocks.join('\n\n')}\n`;
}

function facts(details: WindowDetails): readonly string[] {
  const { source, openedBy, since, expiresAt, closedAt } = details;
  const { closeReason, reason, currentSweep, lastSweep } = details;
  const all: readonly (readonly [string, string | undefined])[] = [
    ['source', `${source}${openedBy === undefined ? '' : `, opened by ${openedBy}`}`],
    ['reason', reason],
    ['defers', describeDeferral(details) ?? 'nothing'],
    [
      'open',
      `${brief(since)} to ${brief(closedAt ?? expiresAt)}${closeReason === undefined ? '' : ` (${closeReason})`}`,
    ],
    ['sweep now', currentSweep && describeSweep(currentSweep)],
    ['last sweep', lastSweep && `${brief(lastSweep.finishedAt)}, ${sweptObjects(lastSweep)}`],
  ];
  return all.flatMap(([name, value]) => (value === undefined ? [] : [`  ${name.padEnd(12)}${value}`]));
}

export const sweptObjects = ({ objectsScanned, interim }: NonNullable<WindowDetails['lastSweep']>): string =>
  `${counted(objectsScanned, 'object')}${interim ? ', interim' : ''}`;

function describeSweep({
  startedAt,
  objectsScanned,
  objectsTotal,
  resource,
}: NonNullable<WindowDetails['currentSweep']>): string {
  const of = objectsTotal === undefined ? '' : ` of about ${objectsTotal}`;
  return `${objectsScanned}${of} ${objectsScanned === 1 && of === '' ? 'object' : 'objects'} since ${brief(startedAt)}, at ${resource}`;
}

function conditions({ conditions: all }: WindowDetails): readonly string[] {
  if (all.length === 0) return [];
  const rows = all.map(({ type, status, reason, message }) => ({
    cells: [type, status, reason],
    lines: [message],
  }));
  return [formatTable(['CONDITION', 'STATUS', 'REASON', 'MESSAGE'], rows, false)];
}

/** A table; undefined without violations. */
export function violationsTable({
  violations: total = 0,
  violationItems,
}: WindowDetails): string | undefined {
  if (total === 0) return undefined;
  const byObject = Map.groupBy(violationItems, ({ object }) => identity(object));
  const rows = [...byObject].flatMap(([object, items]) =>
    items.map((item, index) => ({
      cells: [index === 0 ? object : '', item.field, item.policy],
      lines: [`${item.reason}: ${describeViolation(item)}`],
    })),
  );
  const unlisted = total - violationItems.length;
  const table = formatTable(['VIOLATION IN', 'FIELD', 'POLICY', 'WHAT'], rows, false);
  return unlisted > 0
    ? `${table}\nand ${unlisted} more: gatehouse review --cluster lists everything that violates a policy`
    : table;
}

function relinked({ relinkItems }: WindowDetails): readonly string[] {
  if (relinkItems.length === 0) return [];
  const rows = relinkItems.map((item) => ({
    cells: [identity(item.object)],
    lines: [describeRelink(item)],
  }));
  return [formatTable(['OWNERS OF', 'OWNER AND RESULT'], rows, false)];
}

export const identity = (object: Violation['object']): string => `${object.kind} ${objectKey(object)}`;

/** The writes whose checks the window defers. */
export function describeDeferral({ principals, operations, namespaces }: WindowDetails): string | undefined {
  if (principals.length === 0) return undefined;
  const who = principals.map(({ user, group }) => user ?? `group ${group ?? ''}`).join(', ');
  const where = namespaces.length === 0 ? 'everywhere' : `in ${namespaces.join(', ')}`;
  return `${operations.join(', ')} by ${who}, ${where}`;
}

const brief = (time: string | undefined): string => (time ?? '–').replace(/\.\d+Z$/, 'Z');

const count = (number: number | undefined): string => number?.toString() ?? '–';
