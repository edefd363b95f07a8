/** Windows as a table, as JSON and as YAML. docs/restore.md documents the fields of JSON and YAML. */
import { docsUrl } from '../../config/version.ts';
import { counted } from '../../json/counted.ts';
import { uniqueBy } from '../../json/json.ts';
import { objectKey } from '../../json/kube-object.ts';
import type { RelinkItem, RestoreReport } from '../../api/restore-findings.ts';
import type { RestoreWindow, Violation } from '../../api/restore-window.ts';
import { OPENED_BY } from '../../restore/window.ts';
import type { OutputFormat } from '../terminal/options.ts';
import { formatData, formatTable, type Row } from '../terminal/output.ts';
import { printable } from '../../json/printable.ts';

export type WindowSummary = ReturnType<typeof summaryOf>;
export type WindowDetails = ReturnType<typeof detailsOf>;

export function summaryOf({ metadata, spec, status }: RestoreWindow) {
  const { type = 'Manual', detector, ref } = spec.source ?? {};
  return {
    name: metadata.name ?? '',
    source: ref === undefined ? type : `${detector ?? type}: ${ref.kind} ${objectKey(ref)}`,
    phase: status?.phase ?? 'Pending',
    since: status?.openedAt ?? metadata.creationTimestamp,
    expiresAt: spec.expiresAt,
    closedAt: status?.closedAt,
    closeReason: status?.closeReason,
    violations: status?.violations?.total,
    relinked: status?.relink?.linked,
  };
}

export function detailsOf(window: RestoreWindow, reports: readonly RestoreReport[]) {
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
    /** The violations that the window and its RestoreReports list; `violations` is the total number. */
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

const distinct = <T>(items: readonly T[], keyOf: (item: T) => readonly unknown[]): readonly T[] =>
  uniqueBy(items, (item) => JSON.stringify(keyOf(item).map((part) => part ?? '')));

export function formatList(windows: readonly RestoreWindow[], format: OutputFormat): string {
  const summaries = windows.map(summaryOf).toSorted(newestFirst);
  if (format !== 'table') return formatData({ windows: summaries }, format);
  if (summaries.length === 0)
    return 'There are no RestoreWindows: Gatehouse has detected no restore, and no user has opened a window.\n';
  const closed = summaries.filter(isClosed);
  const hidden = new Set(closed.slice(MAX_CLOSED));
  const shown = summaries.filter((one) => !hidden.has(one));
  const rows = shown.map(({ name, source, phase, since, expiresAt, violations, relinked }) => ({
    cells: [name, source, phase, brief(since), brief(expiresAt), violations?.toString() ?? 'unknown'],
    lines: [count(relinked)],
  }));
  const more =
    hidden.size === 0
      ? ''
      : `and ${counted(hidden.size, 'older window')} without violations: gatehouse restore status -o json\n`;
  return `${formatTable(LIST_HEADINGS, rows, false)}\n${more}`;
}

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
    ...tableOf(
      ['CONDITION', 'STATUS', 'REASON', 'MESSAGE'],
      details.conditions.map(({ type, status, reason, message }) => ({
        cells: [type, status, reason],
        lines: [message],
      })),
    ),
    ...(table === undefined ? [] : [table]),
    ...tableOf(
      ['OWNERS OF', 'OWNER AND RESULT'],
      details.relinkItems.map((item) => ({
        cells: [identity(item.object)],
        lines: [describeRelink(item)],
      })),
    ),
    ...(details.advice.length === 0
      ? []
      : [['What to do:', ...details.advice.map((line) => `  - ${line}`)].map(printable).join('\n')]),
  ];
  return `${blocks.join('\n\n')}\n`;
}

const tableOf = (headings: readonly string[], rows: readonly Row[]): readonly string[] =>
  rows.length === 0 ? [] : [formatTable(headings, rows, false)];

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
  phase,
  resource,
}: NonNullable<WindowDetails['currentSweep']>): string {
  const of = objectsTotal === undefined ? '' : ` of about ${objectsTotal}`;
  return `${objectsScanned}${of} ${objectsScanned === 1 && of === '' ? 'object' : 'objects'} since ${brief(startedAt)}, ${phase === 'Confirming' ? 'confirming violations of' : 'at'} ${resource}`;
}

export const violationRows = (items: readonly Violation[]) =>
  [...Map.groupBy(items, ({ object }) => identity(object))].flatMap(([object, same]) =>
    same.map((item, index) => ({
      object,
      isFirst: index === 0,
      field: item.field,
      policy: item.policy,
      what: `${item.reason}: ${describeViolation(item)}`,
    })),
  );

export function violationsTable({
  violations: total = 0,
  violationItems,
}: WindowDetails): string | undefined {
  if (total === 0) return undefined;
  const rows = violationRows(violationItems).map(({ object, isFirst, field, policy, what }) => ({
    cells: [isFirst ? object : '', field, policy],
    lines: [what],
  }));
  const unlisted = total - violationItems.length;
  const table = formatTable(['VIOLATION IN', 'FIELD', 'POLICY', 'WHAT'], rows, false);
  return unlisted > 0
    ? `${table}\nand ${unlisted} more: gatehouse review --cluster lists everything that violates a policy`
    : table;
}

export const identity = (object: Violation['object']): string => `${object.kind} ${objectKey(object)}`;

export function describeDeferral({ principals, operations, namespaces }: WindowDetails): string | undefined {
  if (principals.length === 0) return undefined;
  const who = principals.map(({ user, group }) => user ?? `group ${group ?? ''}`).join(', ');
  const where = namespaces.length === 0 ? 'everywhere' : `in ${namespaces.join(', ')}`;
  return `${operations.join(', ')} by ${who}, ${where}`;
}

const brief = (time: string | undefined): string => (time ?? '–').replace(/\.\d+Z$/, 'Z');

const count = (number: number | undefined): string => number?.toString() ?? '–';

function adviceFor(window: RestoreWindow): readonly string[] {
  const { metadata, spec, status } = window;
  const { name = '' } = metadata;
  const refused = messageOf(window, 'Open', 'InvalidSpec');
  if (refused !== undefined)
    return [`the window is invalid and never opens: ${refused}. Open another one: gatehouse restore open`];
  if (status?.phase === undefined)
    return [
      'Gatehouse has not processed the window yet: if this persists, check its pods (namespace gatehouse-system by default)',
    ];
  const unread = messageOf(window, 'SweepComplete', 'KindUnreadable');
  const advice: string[] = [];
  if (status.phase === 'Open') advice.push(whileOpen(spec, name));
  if (status.phase === 'Settling')
    advice.push('all checks are enforced again; the final sweep starts when all admitted writes are stored');
  if (status.closeReason === 'Expired')
    advice.push(
      `the window expired: if the restore continued after ${spec.expiresAt}, restore the rejected objects again`,
    );
  const unchecked = messageOf(window, 'CheckedAtAdmission', 'Unobserved');
  if (unchecked !== undefined) advice.push(unchecked);
  if (unread !== undefined)
    advice.push(
      `the sweep could not read all kinds, so more violations are possible: ${unread}. Fix this; Gatehouse then sweeps again`,
    );
  if ((status.violations?.total ?? 0) > 0)
    advice.push(
      'fix the violations: Gatehouse removes a violation from the report when its target appears, or at the next ' +
        'check (after one minute at first, later after up to one hour)',
    );
  const results = (status.relink?.items ?? []).map(({ result }) => result);
  const { requireApprovalToLink = false, approved = false } = spec.sweep ?? {};
  if (requireApprovalToLink && !approved && results.includes('WouldLink'))
    advice.push(`approve the owner references: gatehouse restore approve ${name}`);
  if (results.some((result) => result !== 'WouldLink' && result !== 'Linked'))
    advice.push(`results of owner references: ${docsUrl('restore-windows.md#owner-references')}`);
  return advice;
}

function whileOpen({ source, closeWithSource }: RestoreWindow['spec'], name: string): string {
  const { ref } = source ?? {};
  return ref === undefined || closeWithSource === false
    ? `after the restore, close the window: gatehouse restore close ${name} --wait`
    : `the window closes when ${ref.kind} ${ref.name} has finished; to close it earlier: gatehouse restore close ${name}`;
}

function describeViolation({ reason, message, target }: Violation): string {
  if (message !== undefined) return message;
  const place = target?.namespace === undefined ? '' : ` in namespace "${target.namespace}"`;
  const group = (target?.group ?? '') === '' ? '' : `.${target?.group ?? ''}`;
  const named = target === undefined ? 'the target' : `${target.resource}${group} "${target.name}"${place}`;
  switch (reason) {
    case 'TargetMissing':
      return `${named} does not exist: restore or create it, or correct the field`;
    case 'TargetTerminating':
      return `${named} is being deleted: create it again after the deletion, or correct the field`;
    case 'Duplicate':
      return 'another object has the same value: change one of the two';
    case 'DefaultWouldChange':
      return 'a default is missing: update the object once, and Gatehouse adds the default';
    case 'CheckFailed':
      return 'the policy rejects the object: correct it';
    case 'CrossesNamespaceMapping':
      return `the copy still refers to ${named}: refer to the copy of that object if this is intended`;
  }
}

export function describeRelink({ owner, field, result, message }: RelinkItem): string {
  return `${field === undefined ? '' : `${field}: `}${owner.kind} ${owner.name}: ${result}${message === undefined ? '' : `: ${message}`}`;
}

function messageOf({ status }: RestoreWindow, type: string, reason: string): string | undefined {
  return status?.conditions?.find((condition) => condition.type === type && condition.reason === reason)
    ?.message;
}
