/** The report of `gatehouse status`. docs/status.md documents its fields in JSON and YAML. */
import type { Scope } from '../../read-cluster/injection-targets.ts';
import type { ClusterReadings } from '../../read-cluster/read-cluster.ts';
import type { Attention, Judged } from './attention.ts';
import { authorityPart, type AuthorityPart } from './authority.ts';
import { injectionTargetsPart, type InjectionTargetsPart } from './injection-targets.ts';
import { leaderPart, type LeaderPart } from './leader.ts';
import { admissionPoliciesPart, type AdmissionPoliciesPart } from './policies.ts';
import { servingCertsPart, type ServingCertsPart } from './serving-certs.ts';
import { restoreWindowsPart, type RestoreWindowsPart } from './windows.ts';

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
  readonly leader: LeaderPart;
  readonly authority: AuthorityPart;
  readonly servingCerts: ServingCertsPart;
  readonly injectionTargets: InjectionTargetsPart;
  readonly admissionPolicies: AdmissionPoliciesPart;
  readonly restoreWindows: RestoreWindowsPart;
}

export interface ReportContext extends Scope {
  readonly server: string;
  readonly version: string;
  /** By the clock of the API server. */
  readonly now: Date;
}

export function statusReport(readings: ClusterReadings, context: ReportContext): StatusReport {
  const { server, version, namespace, now } = context;
  const leader = leaderPart(readings, namespace, now);
  const authority = authorityPart(readings, namespace, now);
  const servingCerts = servingCertsPart(readings.servingSecrets, authority.roots, now);
  const injectionTargets = injectionTargetsPart(readings, authority.bundle, context, now);
  const admissionPolicies = admissionPoliciesPart(readings.policies);
  const restoreWindows = restoreWindowsPart(readings.windows, now);
  const parts: readonly Judged<unknown>[] = [
    leader,
    authority,
    servingCerts,
    injectionTargets,
    admissionPolicies,
    restoreWindows,
  ];
  const attention = parts.flatMap((part) => part.attention);
  const report = {
    leader: leader.part,
    authority: authority.part,
    servingCerts: servingCerts.part,
    injectionTargets: injectionTargets.part,
    admissionPolicies: admissionPolicies.part,
    restoreWindows: restoreWindows.part,
  };
  return {
    ...{ server, version, namespace },
    checkedAt: now.toISOString(),
    healthy: attention.length === 0 && isComplete(report),
    attention,
    ...report,
  };
}

type Parts = Pick<
  StatusReport,
  'leader' | 'authority' | 'servingCerts' | 'injectionTargets' | 'admissionPolicies' | 'restoreWindows'
>;

/** Pods are optional, and the published bundle is a sufficient source of the authority. */
function isComplete({ leader, authority, servingCerts, ...others }: Parts): boolean {
  const { injectionTargets, admissionPolicies, restoreWindows } = others;
  return (
    leader.state !== 'Unknown' &&
    authority.source !== undefined &&
    [servingCerts, injectionTargets, admissionPolicies, restoreWindows].every(
      ({ unread }) => unread.length === 0,
    )
  );
}
