/** `gatehouse doctor`: reads a cluster as the user of the kubeconfig, finds common problems, and says what to do. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { sentenceOf } from '../../../json/error-message.ts';
import { connectToCluster } from '../../connect.ts';
import { readManifests } from '../../deploy-manifests.ts';
import type { ClusterFlags, OutputFormat } from '../../terminal/options.ts';
import { formatData, formatTable, hasColours, print, type Colour } from '../../terminal/output.ts';
import { readInstallation, type InstallationReadings } from '../read-cluster/read-installation.ts';
import { checkBundles } from './checks/ca-bundles.ts';
import { checkDevSession } from './checks/dev-session.ts';
import { checkAccess, checkDefinitions, checkGovernedKinds } from './checks/installation.ts';
import { checkClocks, checkLeader } from './checks/leader.ts';
import { checkPolicies, checkWindows } from './checks/policies.ts';
import { checkRivals } from './checks/rivals.ts';
import { checkConfigurations, checkEndpoints, checkFailClosed, checkReach } from './checks/webhooks.ts';
import type { Finding, Severity } from './finding.ts';

export interface DoctorFlags extends ClusterFlags {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly output: OutputFormat;
}

const BASE = join(import.meta.dirname, '..', '..', '..', '..', 'deploy', 'base');

/** @returns the exit code: 1 when there are problems, or the API server does not respond */
export async function doctor({ output, ...flags }: DoctorFlags): Promise<0 | 1> {
  try {
    const cluster = await connectToCluster(flags, 'doctor');
    try {
      const manifests = existsSync(BASE) ? readManifests(BASE) : [];
      const findings = runChecks(await readInstallation(cluster, flags, manifests));
      await print(formatFindings(findings, output, hasColours()));
      return findings.some(({ severity }) => severity === 'problem') ? 1 : 0;
    } finally {
      await cluster.close();
    }
  } catch (error) {
    console.error(`error: ${sentenceOf(error)}`);
    return 1;
  }
}

/** Ordered by dependency: an early problem often causes the later ones. */
const CHECKS: readonly ((readings: InstallationReadings) => readonly Finding[])[] = [
  checkDefinitions,
  checkAccess,
  checkLeader,
  checkConfigurations,
  checkDevSession,
  checkEndpoints,
  checkReach,
  checkFailClosed,
  checkBundles,
  checkRivals,
  checkClocks,
  checkGovernedKinds,
  checkPolicies,
  checkWindows,
];

export const runChecks = (readings: InstallationReadings): readonly Finding[] =>
  CHECKS.flatMap((check) => check(readings));

const COLOURS: Readonly<Record<Severity, Colour>> = {
  ok: 'green',
  warning: 'yellow',
  problem: 'red',
  unknown: 'grey',
};

/** docs/doctor.md documents the fields of JSON and YAML. */
export function formatFindings(findings: readonly Finding[], format: OutputFormat, colours: boolean): string {
  const summary = countBySeverity(findings);
  if (format !== 'table') return formatData({ summary, findings }, format);
  const rows = findings.map(({ check, severity, seen, next }) => ({
    cells: [{ text: check }, { text: severity, colour: COLOURS[severity] }],
    lines: [...seen.split('\n'), ...(next === undefined ? [] : `→ ${next}`.split('\n'))],
  }));
  const { problem, warning, unknown } = summary;
  const table = formatTable(['CHECK', 'RESULT', 'DETAILS'], rows, colours);
  return `${table}\n\nProblems: ${problem}. Warnings: ${warning}. Unknown: ${unknown}.\n`;
}

function countBySeverity(findings: readonly Finding[]): Readonly<Record<Severity, number>> {
  const count = (severity: Severity) => findings.filter((one) => one.severity === severity).length;
  return { ok: count('ok'), warning: count('warning'), problem: count('problem'), unknown: count('unknown') };
}
