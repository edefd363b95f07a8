/** `gatehouse doctor`: reads a cluster as the user of the kubeconfig, finds common problems, and says what to do. */
import { join } from 'node:path';

import { withCluster } from '../../connect.ts';
import { DEPLOY, hasManifests, readManifests } from '../../deploy-manifests.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import { formatData, formatTable, hasColours, print } from '../../terminal/output.ts';
import { readInstallation, type InstallationReadings } from '../read-cluster/read-installation.ts';
import * as certificates from './checks/certificates.ts';
import * as installation from './checks/installation.ts';
import * as policies from './checks/policies.ts';
import * as processes from './checks/processes.ts';
import { checkUserControllers } from './checks/user-controllers.ts';
import * as webhooks from './checks/webhooks.ts';
import type { Finding, Results, Severity } from './finding.ts';

export interface DoctorFlags extends ClusterFlags {
  readonly namespace: string;
  readonly serviceAccount?: string;
  readonly output: OutputFormat;
}

const BASE = join(DEPLOY, 'base');

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
  return findings.some(({ severity }) => severity === 'problem' || severity === 'unknown') ? 1 : 0;
}

/** Ordered by dependency: an early problem often causes the later ones. */
const CHECKS: Readonly<Record<string, (readings: InstallationReadings) => Results>> = {
  kubernetes: installation.checkVersion,
  parts: installation.checkRestrictions,
  definitions: installation.checkDefinitions,
  deployments: processes.checkDeployments,
  access: installation.checkAccess,
  leader: processes.checkLeader,
  'webhook-configurations': webhooks.checkConfigurations,
  removal: webhooks.checkRemoval,
  'dev-session': webhooks.checkDevSession,
  endpoints: webhooks.checkEndpoints,
  'webhook-reach': webhooks.checkReach,
  'webhook-clients': webhooks.checkClients,
  'fail-closed': webhooks.checkFailClosed,
  'ca-bundle': certificates.checkBundles,
  'serving-certs': certificates.checkServingCerts,
  'injection-targets': certificates.checkInjectionTargets,
  rivals: certificates.checkRivals,
  clocks: processes.checkClocks,
  'governed-kinds': installation.checkGovernedKinds,
  restarts: processes.checkRestarts,
  policies: policies.checkPolicies,
  'restore-windows': policies.checkWindows,
  'user-controllers': checkUserControllers,
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
    lines: [seen, ...(next === undefined ? [] : `→ ${next}`.split('\n'))],
  }));
  const table = formatTable(['CHECK', 'RESULT', 'DETAILS'], rows, colours);
  return `${table}\n\nProblems: ${problem}. Warnings: ${warning}. Unknown: ${unknown}.\n`;
}
