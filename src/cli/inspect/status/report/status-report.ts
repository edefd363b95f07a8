/** The report of `gatehouse status`. docs/status.md documents its fields in JSON and YAML. */
import type { Scope } from '../../read-cluster/injection-targets.ts';
import type { ClusterReadings } from '../../read-cluster/read-cluster.ts';
import type { Restrictions } from '../../../../runtime/leadership/own-lease.ts';
import { PARTS, type Attention, type Listing, type Judged, type Problems } from './attention.ts';
import { authorityPart, type AuthorityPart } from './authority.ts';
import { handlersIn, type HandlerRow } from './handlers.ts';
import { injectionTargetsPart, type InjectionTargetRow } from './injection-targets.ts';
import { leaderPart, type LeaderPart } from './leader.ts';
import { admissionPoliciesPart, type PolicyRow } from './policies.ts';
import { servedCertsPart, type ServedCertsPart } from './served-certs.ts';
import { servingCertsPart, type ServingCertRow } from './serving-certs.ts';
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import { counted } from '../../../../json/counted.ts';
import { windowState } from '../../../../restore/window.ts';
import { summaryOf, type WindowSummary } from '../../../restore/window-report.ts';
import { unreadOf, valueOf, type Reading } from '../../read-cluster/reading.ts';

export interface StatusReport {
  readonly server: string;
  /** The version of the API server. */
  readonly version: string;
  readonly namespace: string;
  /** RFC 3339, by the clock of the API server. */
  readonly checkedAt: string;
  /** Whether all parts could be read and none needs attention. */
  readonly healthy: boolean;
  readonly attention: readonly Attention[];
  /** The parts that do not run: `--without` of the leader. Their sections contain only Gatehouse's own objects. */
  readonly without: Restrictions['without'];
  /** Where Gatehouse works: `--namespaces` of the leader and its own. Absent: everywhere. */
  readonly namespaces?: Restrictions['namespaces'];
  readonly leader: LeaderPart;
  readonly authority: AuthorityPart;
  /** Unusable certificates first, then by `notAfter`. */
  readonly servingCerts: Listing<ServingCertRow>;
  /** Services with servers that present an earlier certificate; the certificate that ends first goes first. */
  readonly servedCerts: ServedCertsPart;
  /** By kind and name. */
  readonly injectionTargets: Listing<InjectionTargetRow>;
  /** By name. */
  readonly admissionPolicies: Listing<PolicyRow>;
  readonly restoreWindows: RestoreWindowsPart;
  /** The handlers with a webhook entry, by name. */
  readonly handlers: readonly HandlerRow[];
}

export interface ReportContext extends Scope {
  readonly server: string;
  readonly version: string;
  /** By the clock of the API server. */
  readonly now: Date;
}

export function statusReport(readings: ClusterReadings, context: ReportContext): StatusReport {
  const { server, version, namespace, now } = context;
  const authority = authorityPart(readings, namespace, now);
  const judged = {
    leader: leaderPart(readings, namespace, now),
    authority,
    servingCerts: servingCertsPart(readings, context, authority.signers, now),
    servedCerts: servedCertsPart(readings.servedCerts, namespace, now),
    injectionTargets: injectionTargetsPart(readings, authority.bundle, context, now),
    admissionPolicies: admissionPoliciesPart(readings.policies),
    restoreWindows: restoreWindowsPart(readings.windows, now),
  };
  const attention = PARTS.flatMap((part) => judged[part].problems.map((problem) => ({ part, ...problem })));
  const parts = {
    leader: judged.leader.part,
    authority: authority.part,
    servingCerts: judged.servingCerts.part,
    servedCerts: judged.servedCerts.part,
    injectionTargets: judged.injectionTargets.part,
    admissionPolicies: judged.admissionPolicies.part,
    restoreWindows: judged.restoreWindows.part,
  };
  // Pods are optional, and the published bundle is a sufficient source of the authority.
  const { leader, authority: trust, ...listings } = parts;
  const isComplete =
    leader.state !== 'Unknown' &&
    trust.source !== undefined &&
    Object.values(listings).every(({ unread }) => unread.length === 0);
  return {
    ...{ server, version, namespace },
    checkedAt: now.toISOString(),
    healthy: attention.length === 0 && isComplete,
    attention,
    ...readings.restrictions,
    ...parts,
    handlers: handlersIn(readings),
  };
}

/** Windows that are open, settling or have violations, newest first. */
interface RestoreWindowsPart extends Listing<WindowSummary> {
  /** The number of all windows. */
  readonly total: number;
}

/** The leader closes an expired window within seconds. */
const OVERDUE_MS = 60_000;

/** RestoreWindows that are open, or whose restore has left violations. */
function restoreWindowsPart(
  windows: Reading<readonly RestoreWindow[]>,
  now: Date,
): Judged<RestoreWindowsPart> {
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
    const message = `the restore has left ${counted(total, 'violation')}`;
    return [{ object, message, command: `gatehouse restore status ${name}` }];
  }
  const isOverdue = new Date(spec.expiresAt).getTime() + OVERDUE_MS < now.getTime();
  if (status?.phase !== 'Open' || !isOverdue) return [];
  return [{ object, message: 'it has expired, but the leader has not closed it: check the leader' }];
}
