/** `gatehouse doctor`: reads a cluster as the user of the kubeconfig, finds common problems, and says what to do. */
import { join } from 'node:path';

import { messageWithCauses } from '../../../json/error-message.ts';
import { withAnyCluster } from '../../connect.ts';
import { DEPLOY, hasManifests, readManifests } from '../../deploy-manifests.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import { formatData, formatTable, hasColours, print } from '../../terminal/output.ts';
import { readInstallation, type InstallationReadings } from '../read-cluster/read-installation.ts';
import { checkDeployments } from './checks/deployments.ts';
import { checkBundles } from './checks/ca-bundles.ts';
import {
  checkClients,
  checkDevSession,
  checkConfigurations,
  checkEndpoints,
  checkFailClosed,
  checkReach,
} from './checks/webhooks.ts';
import {
  checkAccess,
  checkDefinitions,
  checkGovernedKinds,
  checkRestrictions,
  checkVersion,
} from './checks/installation.ts';
import { checkPolicies, checkWindows } from './checks/policies.ts';
import { checkRivals } from './checks/rivals.ts';
import {
  logsOf,
  ok,
  warning,
  judgeReading,
  orElse,
  someOf,
  podsOf,
  problem,
  unknown,
  type Finding,
  type Results,
  type Severity,
  type Result,
} from './finding.ts';
import { INSTALLATION_ROLE, isOwnedByInstallation } from '../../../admission/webhooks/installation-owner.ts';
import { devSessionOf } from '../../../admission/webhooks/dev-session.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../admission/webhooks/webhook-configurations.ts';
import { valueOf, describeUnread } from '../read-cluster/reading.ts';
import { WARN_SKEW_MS } from '../../../runtime/clock-skew.ts';
import { counted } from '../../../json/counted.ts';
import { authorityPart } from '../status/report/authority.ts';
import type { Judged, Listing } from '../status/report/attention.ts';
import { injectionTargetsPart } from '../status/report/injection-targets.ts';
import { servingCertsPart } from '../status/report/serving-certs.ts';

/** Of thousands of objects. */
const MAX_FINDINGS = 20;

const SCOPE = { compat: [] } as const;

/** Checks that every Service and every target that asks for a certificate or a CA bundle has it, as `gatehouse status` reports. */
function checkServingCerts({ cluster, namespace, now }: InstallationReadings): Results {
  const { signers } = authorityPart(cluster, namespace, now);
  const judged = servingCertsPart(cluster, SCOPE, signers, now);
  return toResults(judged, (count) =>
    count === 0 ? 'no Service asks for a certificate' : `${counted(count, 'certificate')} can be used`,
  );
}

function checkInjectionTargets({ cluster, namespace, now }: InstallationReadings): Results {
  const { bundle } = authorityPart(cluster, namespace, now);
  const judged = injectionTargetsPart(cluster, bundle, { namespace, ...SCOPE }, now);
  return toResults(judged, (count) => `${counted(count, 'object')} with a CA bundle`);
}

function toResults(
  { part, problems }: Judged<Listing<unknown>>,
  success: (count: number) => string,
): Results {
  const found = problems
    .slice(0, MAX_FINDINGS)
    .map(({ object, message, command }) =>
      problem(`${object}: ${message}`, command ?? 'gatehouse status; see its events and the check leader'),
    );
  const unread = part.unread.map((one): Result =>
    unknown(describeUnread(one), 'run the command as a user who may read this'),
  );
  const results = [...found, ...unread];
  return results.length > 0 ? results : ok(success(part.items.length));
}

const DEFAULT_LEASE_S = 12;

/** Checks that a leader renews the Lease, and that the clocks agree: windows and certificates depend on the time. */
const checkLeader = ({ lease, namespace, now }: InstallationReadings): Results =>
  judgeReading(lease, (live) => {
    const { holderIdentity = '', leaseDurationSeconds = DEFAULT_LEASE_S, renewTime } = live?.spec ?? {};
    const name = `Lease ${namespace}/gatehouse`;
    const next = `${podsOf(namespace)}; ${logsOf(namespace)}`;
    if (live === undefined)
      return problem(`${name} does not exist: no replica has ever led in this namespace`, next);
    if (holderIdentity === '') return problem(`no replica holds the ${name}`, next);
    const age = renewTime === undefined ? Number.NaN : (now.getTime() - Date.parse(renewTime)) / 1_000;
    if (age < leaseDurationSeconds) return ok(`${holderIdentity} leads`);
    const renewed = Number.isNaN(age) ? 'has never renewed it' : `last renewed it ${Math.round(age)} s ago`;
    const seen = `${holderIdentity} holds the ${name} and ${renewed}: it has stopped, cannot reach the API server, or its clock is behind`;
    return problem(seen, next);
  });

const checkClocks = ({ skewMs, lease, now }: InstallationReadings): Results =>
  [localClock(skewMs), leaderClock(valueOf(lease)?.spec?.renewTime, now)].flat();

function localClock(skewMs: number | undefined): Results {
  if (skewMs === undefined)
    return unknown(
      'the responses of the API server have no date',
      'check whether a proxy removes the Date header',
    );
  if (Math.abs(skewMs) <= WARN_SKEW_MS) return ok('the clocks of this machine and the API server agree');
  return warning(
    `the clock of this machine is ${seconds(skewMs)} ${skewMs > 0 ? 'ahead of' : 'behind'} the API server`,
    'synchronise it (timedatectl set-ntp true): client certificates and the times in reports depend on it',
  );
}

/** Reports only a clock that is ahead. If it is behind, the Lease looks stale, which the check `leader` reports. */
function leaderClock(renewTime: string | undefined, now: Date): Results {
  const aheadMs = renewTime === undefined ? 0 : Date.parse(renewTime) - now.getTime();
  if (aheadMs <= WARN_SKEW_MS) return [];
  return warning(
    `the clock of the leader is ${seconds(aheadMs)} ahead of the API server`,
    'synchronise the clock of its node; the metric gatehouse_clock_skew_seconds shows the skew of each replica',
  );
}

const seconds = (ms: number): string => `${Math.round(Math.abs(ms) / 1_000)} s`;

/** Without the permissions, the leader does not even see the annotation, so no Event says that they are missing. */
const checkRestarts = ({ restarts, namespace, controllers }: InstallationReadings): Results =>
  judgeReading(restarts, ({ checked, missing }) => {
    const findings = missing.map((place) =>
      warning(
        `the ServiceAccount ${namespace}/${controllers} may not restart ${someOf(place.workloads)} after a renewal`,
        `kubectl -n ${place.namespace} create rolebinding gatehouse-restarts --clusterrole=gatehouse-restarts ` +
          `--serviceaccount=${namespace}:${controllers}; the ClusterRole is in deploy/components/restarts`,
      ),
    );
    const all =
      checked === 1
        ? 'the workload that asks for restarts'
        : `all ${checked} workloads that ask for restarts`;
    return orElse(
      findings,
      ok(checked === 0 ? 'no workload asks for restarts' : `Gatehouse may restart ${all}`),
    );
  });

/**
 * The owner shows it: the garbage collector has deleted everything whose owner is gone. A development session may have created
 * a configuration without one.
 */
function checkRemoval({ namespace, mutating, validating, now }: InstallationReadings): Results {
  const judged = { MutatingWebhookConfiguration: mutating, ValidatingWebhookConfiguration: validating };
  const found = Object.entries(judged).flatMap(([kind, reading]) => {
    const live = valueOf(reading);
    return live === undefined || devSessionOf(live, now).kind !== 'none' ? [] : [{ kind, live }];
  });
  if (found.length === 0) return [];
  const unowned = found.filter(({ live }) => !isOwnedByInstallation(live)).map(({ kind }) => kind);
  if (unowned.length === 0) return ok('the webhook configurations go when Gatehouse is removed');
  return warning(
    `${unowned.join(' and ')} "${WEBHOOK_CONFIGURATION_NAME}" would stay if Gatehouse were removed, and reject all governed requests`,
    `apply the manifests, which include the ClusterRole ${INSTALLATION_ROLE} and the permissions for it: kubectl apply -k deploy. ` +
      `If the warning is still there after a minute: ${logsOf(namespace)}`,
  );
}

export interface DoctorFlags extends ClusterFlags {
  readonly namespace: string;
  readonly serviceAccount?: string;
  readonly output: OutputFormat;
}

const BASE = join(DEPLOY, 'base');

/** @returns the exit code: 1 when there are problems or checks could not be made, or the API server does not respond */
export async function doctor({ output, ...flags }: DoctorFlags): Promise<0 | 1> {
  try {
    const manifests = hasManifests(BASE) ? readManifests(BASE) : [];
    const readings = await withAnyCluster(flags, 'doctor', (cluster) =>
      readInstallation(cluster, flags, manifests),
    );
    const findings = runChecks(readings);
    await print(formatFindings(findings, output, hasColours()));
    return exitCodeOf(findings);
  } catch (error) {
    console.error(`error: ${messageWithCauses(error)}`);
    return 1;
  }
}

/** A check that could not be made may hide a problem. */
export const exitCodeOf = (findings: readonly Pick<Finding, 'severity'>[]): 0 | 1 =>
  findings.some(({ severity }) => severity === 'problem' || severity === 'unknown') ? 1 : 0;

/** Ordered by dependency: an early problem often causes the later ones. */
const CHECKS: Readonly<Record<string, (readings: InstallationReadings) => Results>> = {
  kubernetes: checkVersion,
  parts: checkRestrictions,
  definitions: checkDefinitions,
  deployments: checkDeployments,
  access: checkAccess,
  leader: checkLeader,
  'webhook-configurations': checkConfigurations,
  removal: checkRemoval,
  'dev-session': checkDevSession,
  endpoints: checkEndpoints,
  'webhook-reach': checkReach,
  'webhook-clients': checkClients,
  'fail-closed': checkFailClosed,
  'ca-bundle': checkBundles,
  'serving-certs': checkServingCerts,
  'injection-targets': checkInjectionTargets,
  rivals: checkRivals,
  clocks: checkClocks,
  'governed-kinds': checkGovernedKinds,
  restarts: checkRestarts,
  policies: checkPolicies,
  'restore-windows': checkWindows,
};

export const runChecks = (readings: InstallationReadings): readonly Finding[] =>
  Object.entries(CHECKS).flatMap(([check, run]) =>
    [run(readings)].flat().map((result) => ({ check, ...result })),
  );

const COLOURS = { ok: 'green', warning: 'yellow', problem: 'red', unknown: 'grey' } as const;

/** docs/doctor.md documents the fields of JSON and YAML. */
export function formatFindings(findings: readonly Finding[], format: OutputFormat, colours: boolean): string {
  const count = (severity: Severity) => findings.filter((one) => one.severity === severity).length;
  const [warning, problem, unknown] = [count('warning'), count('problem'), count('unknown')];
  const summary = { ok: count('ok'), warning, problem, unknown };
  if (format !== 'table') return formatData({ summary, findings }, format);
  const rows = findings.map(({ check, severity, seen, next }) => ({
    cells: [check, { text: severity, colour: COLOURS[severity] }],
    lines: [...seen.split('\n'), ...(next === undefined ? [] : `→ ${next}`.split('\n'))],
  }));
  const table = formatTable(['CHECK', 'RESULT', 'DETAILS'], rows, colours);
  return `${table}\n\nProblems: ${problem}. Warnings: ${warning}. Unknown: ${unknown}.\n`;
}
