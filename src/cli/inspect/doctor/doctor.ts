/** `gatehouse doctor`: reads a cluster as the user of the kubeconfig, finds common problems, and says what to do. */
import { join } from 'node:path';

import { withCluster } from '../../connect.ts';
import { DEPLOY, hasManifests, readManifests } from '../../deploy-manifests.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import { formatData, formatTable, hasColours, print } from '../../terminal/output.ts';
import { readInstallation, type InstallationReadings } from '../read-cluster/read-installation.ts';
import {
  checkBundles,
  checkInjectionTargets,
  checkRivals,
  checkServingCerts,
} from './checks/certificates.ts';
import {
  checkAccess,
  checkDefinitions,
  checkGovernedKinds,
  checkRestrictions,
  checkVersion,
} from './checks/installation.ts';
import { checkPolicies, checkWindows } from './checks/policies.ts';
import { checkClocks, checkDeployments, checkLeader, checkRestarts } from './checks/processes.ts';
import {
  checkClients,
  checkConfigurations,
  checkDevSession,
  checkEndpoints,
  checkFailClosed,
  checkReach,
  checkRemoval,
} from './checks/webhooks.ts';
import type { Finding, Results, Severity } from './finding.ts';

export interface DoctorFlags extends ClusterFlags {
  readonly namespace: string;
  readonly serviceAccount?: string;
  readonly output: OutputFormat;
}

const BASE = join(DEPLOY, 'base');

/** @returns the exit code: 1 when there are problems or checks could not be made */
export async function doctor({ output, ...flags }: DoctorFlags): Promise<0 | 1> {
  const manifests = hasManifests(BASE) ? readManifests(BASE) : [];
  const readings = await withCluster(
    flags,
    'doctor',
    (cluster) => readInstallation(cluster, flags, manifests),
    { anyVersion: true },
  );
  const findings = runChecks(readings);
  await print(formatFindings(findings, output, hasColours()));
  return exitCodeOf(findings);
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

const TONES = { ok: 'good', warning: 'warn', problem: 'bad', unknown: 'rest' } as const;

/** docs/status.md documents the fields of JSON and YAML. */
export function formatFindings(findings: readonly Finding[], format: OutputFormat, colours: boolean): string {
  const count = (severity: Severity) => findings.filter((one) => one.severity === severity).length;
  const [warning, problem, unknown] = [count('warning'), count('problem'), count('unknown')];
  const summary = { ok: count('ok'), warning, problem, unknown };
  if (format !== 'table') return formatData({ summary, findings }, format);
  const rows = findings.map(({ check, severity, seen, next }) => ({
    cells: [check, { text: severity, tone: TONES[severity] }],
    lines: [...seen.split('\n'), ...(next === undefined ? [] : `→ ${next}`.split('\n'))],
  }));
  const table = formatTable(['CHECK', 'RESULT', 'DETAILS'], rows, colours);
  return `${table}\n\nProblems: ${problem}. Warnings: ${warning}. Unknown: ${unknown}.\n`;
}
