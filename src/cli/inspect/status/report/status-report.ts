/** The report of `gatehouse status`. docs/status.md documents its fields in JSON and YAML. */
import type { Scope, ClusterReadings } from '../../read-cluster/read-cluster.ts';
import { authorityPart } from './authority.ts';
import { handlersIn, admissionPoliciesPart } from './policies.ts';
import { injectionTargetsPart } from './injection-targets.ts';
import { leaderPart } from './leader.ts';
import { servedCertsPart, servingCertsPart } from './serving-certs.ts';
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import { counted } from '../../../../json/counted.ts';
import { windowState } from '../../../../restore/window.ts';
import { summaryOf } from '../../../restore/window-report.ts';
import { userControllersPart } from './user-controllers.ts';
import { PARTS, unreadOf, valueOf, type Problems, type Reading } from '../../read-cluster/reading.ts';

export type StatusReport = ReturnType<typeof statusReport>;

export interface ReportContext extends Pick<Scope, 'namespace'> {
  readonly server: string;
  readonly version: string;
  readonly now: Date;
}

export function statusReport(readings: ClusterReadings, context: ReportContext) {
  const { server, version, namespace, now } = context;
  const authority = authorityPart(readings, namespace, now);
  const judged = {
    leader: leaderPart(readings, namespace, now),
    authority,
    servingCerts: servingCertsPart(readings, authority.signers, now),
    servedCerts: servedCertsPart(readings.servedCerts, namespace, now),
    injectionTargets: injectionTargetsPart(readings, authority.bundle, namespace, now),
    admissionPolicies: admissionPoliciesPart(readings.policies),
    restoreWindows: restoreWindowsPart(readings.windows, now),
    userControllers: userControllersPart(readings.userControllers, readings.lease, namespace, now),
  };
  const attention = PARTS.flatMap((part) => judged[part].problems.map((problem) => ({ part, ...problem })));
  // Pods are optional, and the published bundle is a sufficient source of the authority.
  const { leader, authority: trust, ...listings } = judged;
  const isComplete =
    leader.part.state !== 'Unknown' &&
    trust.part.source !== undefined &&
    Object.values(listings).every(({ part }) => part.unread.length === 0);
  const { without, namespaces } = readings.restrictions;
  return {
    server,
    version,
    namespace,
    checkedAt: now.toISOString(),
    healthy: attention.length === 0 && isComplete,
    attention,
    /** The parts that do not run: `--without` of the leader. Their sections contain only Gatehouse's own objects. */
    without,
    /** Where Gatehouse works: `--namespaces` of the leader and its own. Undefined: everywhere. */
    namespaces,
    leader: leader.part,
    authority: trust.part,
    servingCerts: judged.servingCerts.part,
    servedCerts: judged.servedCerts.part,
    injectionTargets: judged.injectionTargets.part,
    admissionPolicies: judged.admissionPolicies.part,
    restoreWindows: judged.restoreWindows.part,
    userControllers: judged.userControllers.part,
    handlers: handlersIn(readings),
  };
}

/** The leader closes an expired window within seconds. */
const OVERDUE_MS = 60_000;

function restoreWindowsPart(windows: Reading<readonly RestoreWindow[]>, now: Date) {
  const all = valueOf(windows) ?? [];
  const shown = all.filter((window) => isShown(window, now)).toSorted((a, b) => sinceOf(b) - sinceOf(a));
  return {
    part: {
      unread: unreadOf('RestoreWindows', windows),
      items: shown.map(summaryOf),
      total: all.length,
    },
    problems: shown.flatMap((window) => problemsOf(window, now)),
  };
}

const sinceOf = ({ metadata, status }: RestoreWindow): number =>
  new Date(status?.openedAt ?? metadata.creationTimestamp ?? 0).getTime();

function isShown(window: RestoreWindow, now: Date): boolean {
  const phase = window.status?.phase;
  if (phase === undefined) return windowState(window, now).kind === 'open';
  return phase !== 'Completed' && phase !== 'Refused';
}

function problemsOf({ metadata, spec, status }: RestoreWindow, now: Date): Problems {
  const { name = '' } = metadata;
  const object = `RestoreWindow ${name}`;
  if (status?.phase === 'CompletedWithViolations') {
    const { total = 0 } = status.violations ?? {};
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    const message =
      total === 0 && ready !== undefined
        ? ready.message
        : `the restore has left ${counted(total, 'violation')}`;
    return [{ object, message, command: `gatehouse restore status ${name}` }];
  }
  const isOverdue = new Date(spec.expiresAt).getTime() + OVERDUE_MS < now.getTime();
  if (status?.phase !== 'Open' || !isOverdue) return [];
  return [{ object, message: 'it has expired, but the leader has not closed it: check the leader' }];
}
