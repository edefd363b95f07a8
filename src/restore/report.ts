/** Converts the result of a sweep to the status of a RestoreWindow. */
import { REPORT_ITEMS, type RelinkItem, type RestoreReportSpec } from '../api/restore-findings.ts';
import type { RestoreWindow, RestoreWindowStatus, Violation } from '../api/restore-window.ts';
import { counted } from '../json/counted.ts';
import { objectKey, type Condition, type GroupResource, type KubeObject } from '../json/kube-object.ts';
import { compareText, pick } from '../json/json.ts';

/** Of the status: etcd limits an object to 1.5 MiB, and users read only the first page. */
const MAX_STATUS_ITEMS = 50;

export interface SweepResult {
  readonly startedAt: Date;
  readonly finishedAt: Date;
  readonly interim: boolean;
  readonly objectsScanned: number;
  readonly violations: readonly Violation[];
  /** Each with the reason. A sweep with unreadable kinds is never clean. */
  readonly unreadable: readonly string[];
}

/** @param status the status before, with the result of the links */
export function toSweepStatus(
  result: SweepResult,
  { closedAt, violations: before, relink }: RestoreWindowStatus,
): Required<Pick<RestoreWindowStatus, 'phase' | 'lastSweep' | 'violations'>> {
  const { interim, unreadable } = result;
  const violations = withDates(result, before?.items ?? []);
  const items = violations.slice(0, MAX_STATUS_ITEMS);
  const clean = violations.length + unreadable.length + (relink?.failed ?? 0) === 0;
  const isKnown = violations.length > 0 || unreadable.length === 0;
  return {
    phase:
      closedAt === undefined
        ? 'Open'
        : interim
          ? 'Settling'
          : clean
            ? 'Completed'
            : 'CompletedWithViolations',
    lastSweep: {
      startedAt: result.startedAt.toISOString(),
      finishedAt: result.finishedAt.toISOString(),
      objectsScanned: result.objectsScanned,
      interim,
    },
    violations: {
      ...(isKnown ? { total: violations.length } : {}),
      byPolicy: countByPolicy(violations),
      items,
    },
  };
}

export function withDates(
  { violations, finishedAt }: Pick<SweepResult, 'violations' | 'finishedAt'>,
  before: readonly Violation[],
): readonly Violation[] {
  const known = new Map(before.map((one) => [sortKeyOf(one), one.firstSeen]));
  const now = finishedAt.toISOString();
  return violations
    .map((one) => ({ one, key: sortKeyOf(one) }))
    .toSorted(compareBy(({ key }) => key))
    .map(({ one, key }) =>
      one.lastSeen === now ? one : { ...one, firstSeen: known.get(key) ?? now, lastSeen: now },
    );
}

/** For what does not fit into the status. */
export function toReports(
  window: string,
  violations: readonly Violation[],
  relink: readonly RelinkItem[],
): readonly RestoreReportSpec[] {
  if (violations.length <= MAX_STATUS_ITEMS && relink.length <= MAX_STATUS_ITEMS) return [];
  const parts = Math.ceil(Math.max(violations.length, relink.length) / REPORT_ITEMS);
  return Array.from({ length: parts }, (_, part) => {
    const slice = <T>(all: readonly T[]) => all.slice(part * REPORT_ITEMS, (part + 1) * REPORT_ITEMS);
    return { window, part, parts, violations: slice(violations), relink: slice(relink) };
  });
}

/** Whether the report may change with this target. If the status omits some violations, with any target. */
export function concernsReport(
  { status }: Pick<RestoreWindow, 'status'>,
  { group, resource }: GroupResource,
  key: string,
): boolean {
  const { total = 0, items = [] } = status?.violations ?? {};
  const isTarget = ({ target }: Violation) =>
    target?.group === group && target.resource === resource && objectKey(target) === key;
  return total > items.length || items.some(isTarget);
}

function countByPolicy(violations: readonly Violation[]): Readonly<Record<string, number>> {
  const byPolicy = [...Map.groupBy(violations, ({ policy }) => policy)];
  return Object.fromEntries(byPolicy.map(([policy, all]) => [policy, all.length]));
}

const compareBy =
  <T>(textOf: (one: T) => string) =>
  (a: T, b: T): number =>
    compareText(textOf(a), textOf(b));

function sortKeyOf({ policy, object, field, reason }: Violation): string {
  return [policy, object.kind, object.namespace ?? '', object.name, field, reason].join('\u0000');
}

type RelinkStatus = NonNullable<RestoreWindowStatus['relink']>;

/** @param before the status after earlier sweeps: later sweeps do not find the owners again that they linked */
export function toRelinkStatus(
  before: Pick<RelinkStatus, 'linked' | 'items'> | undefined,
  items: readonly RelinkItem[],
): RelinkStatus {
  const open = items.filter(({ result }) => result !== 'Linked');
  const linked = (before?.linked ?? 0) + items.length - open.length;
  const failed = open.filter(({ result }) => result === 'Failed').length;
  // A message on a link means that the link is incomplete.
  const remarkable = [...(before?.items ?? []), ...items].filter(
    ({ result, message }) => result === 'Linked' && message !== undefined,
  );
  return {
    found: linked + open.length,
    linked,
    skipped: open.length - failed,
    failed,
    items: [...open.toSorted(byOwner), ...remarkable.toSorted(byOwner)].slice(0, MAX_STATUS_ITEMS),
  };
}

/** The condition `OwnersRelinked`. It is also true if no owners were lost, or if the backup tool linked all of them. */
export function relinkCondition({
  found,
  linked,
  skipped,
  failed,
}: RelinkStatus): Pick<Condition, 'type' | 'status' | 'reason' | 'message'> {
  const condition = (reason: string, message: string) =>
    ({ type: 'OwnersRelinked', status: reason === 'Linked' ? 'True' : 'False', reason, message }) as const;
  const all = counted(found, 'lost reference');
  if (failed > 0)
    return condition('LinkFailed', `${failed} of ${all} could not be linked; see status.relink`);
  const were = (count: number) => (count === 1 ? 'was' : 'were');
  if (skipped > 0)
    return condition('NotAllLinked', `${skipped} of ${all} ${were(skipped)} left alone; see status.relink`);
  return condition('Linked', `${counted(linked, 'lost reference')} ${were(linked)} linked again`);
}

const byOwner = compareBy(({ object, owner, field = '' }: RelinkItem) =>
  [object.kind, object.namespace ?? '', object.name, owner.kind, owner.name, field].join('\u0000'),
);

export function subjectOf({ apiVersion = '', kind = '', metadata = {} }: KubeObject): Violation['object'] {
  return { apiVersion, kind, name: metadata.name ?? '', ...pick(metadata, 'namespace', 'uid') };
}
