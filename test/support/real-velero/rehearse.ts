/** What `gatehouse restore rehearse` predicts for a backup of a real Velero and the cluster as it is now. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { configMaps } from '../../../src/kube/well-known.ts';
import type { Cluster } from '../cluster.ts';
import { APPLICATIONS } from '../restore-kinds.ts';
import type { Line } from '../restore-oracle.ts';
import { runGatehouse } from '../review-command.ts';
import type { RestoreSpec } from './server.ts';

interface Printed {
  /** Absent if the restore selects nothing. */
  readonly findings?: readonly Finding[];
  readonly error?: string;
}
interface Finding {
  readonly severity: 'problem' | 'note';
  readonly reason: string;
  readonly object: string;
}

/** The problems, as `TargetMissing applications.restore.example.com east/cart`, in the order of the alphabet. */
export async function rehearsed(
  cluster: Cluster,
  archive: string,
  spec: RestoreSpec,
): Promise<readonly string[]> {
  const { stdout, stderr } = await runGatehouse([
    ...['restore', 'rehearse', archive, '--against', cluster.plane.kubeconfig('admin'), '-o', 'json'],
    ...(spec.resourceModifier === undefined ? flagsOf(spec) : ['--restore', await fileOf(cluster, spec)]),
  ]);
  if (stdout === '') throw new Error(`the rehearsal failed: ${stderr}`);
  const { findings = [], error = '' } = JSON.parse(stdout) as Printed;
  if (error !== '' && !/not found in the backup|nothing was rehearsed/.test(error)) throw new Error(error);
  return findings
    .filter(({ severity }) => severity === 'problem')
    .map(({ reason, object }) => `${reason} ${object}`)
    .toSorted();
}

/** The Restore, with the ConfigMap of the cluster. */
async function fileOf({ admin, plane }: Cluster, spec: RestoreSpec): Promise<string> {
  const place = { namespace: 'velero', name: spec.resourceModifier?.name ?? '' };
  const restore = {
    apiVersion: 'velero.io/v1',
    kind: 'Restore',
    metadata: place,
    spec: { backupName: 'any', ...spec },
  };
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', ...(await admin.get(configMaps, place)) };
  const file = join(plane.folder, `${place.name}.yaml`);
  writeFileSync(file, [restore, configMap].map((one) => JSON.stringify(one)).join('\n---\n'));
  return file;
}

function flagsOf(spec: RestoreSpec): readonly string[] {
  const { namespaceMapping = {}, labelSelector, existingResourcePolicy } = spec;
  const { includedNamespaces, includedResources } = spec;
  const pairs = Object.entries(namespaceMapping).map((pair) => pair.join(':'));
  const labels = Object.entries(labelSelector?.matchLabels ?? {}).map((pair) => pair.join('='));
  return [
    ...(pairs.length === 0 ? [] : ['--namespace-mappings', pairs.join()]),
    ...(labels.length === 0 ? [] : ['--selector', labels.join()]),
    ...(includedNamespaces === undefined ? [] : ['--include-namespaces', includedNamespaces.join()]),
    ...(includedResources === undefined ? [] : ['--include-resources', includedResources.join()]),
    ...(existingResourcePolicy === undefined ? [] : ['--existing-resource-policy', existingResourcePolicy]),
  ];
}

export function predictionOf(line: Line): string {
  const [key = '', , reason = ''] = line.split(' ');
  return `${reason} applications.${APPLICATIONS.group} ${key}`;
}
