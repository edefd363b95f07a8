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
  readonly objects?: readonly Predicted[];
  readonly error?: string;
}
export interface Predicted {
  readonly object: string;
  readonly result: string;
  readonly message: string;
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
  const { findings } = await rehearsal(cluster, archive, spec);
  return findings
    .filter(({ severity }) => severity === 'problem')
    .map(({ reason, object }) => `${reason} ${object}`)
    .toSorted();
}

export async function rehearsal(cluster: Cluster, archive: string, spec: RestoreSpec) {
  const { stdout, stderr } = await runGatehouse([
    ...['restore', 'rehearse', archive, '--against', cluster.plane.kubeconfig('admin'), '-o', 'json'],
    ...['--restore', await fileOf(cluster, spec)],
  ]);
  if (stdout === '') throw new Error(`the rehearsal failed: ${stderr}`);
  const { findings = [], objects = [], error = '' } = JSON.parse(stdout) as Printed;
  if (error !== '' && !/not found in the backup|nothing was rehearsed/.test(error)) throw new Error(error);
  return { findings, objects };
}

/** The Restore, with the ConfigMaps of the cluster. */
async function fileOf({ admin, plane }: Cluster, spec: RestoreSpec): Promise<string> {
  const metadata = { namespace: 'velero', name: 'rehearsed' };
  const restore = {
    apiVersion: 'velero.io/v1',
    kind: 'Restore',
    metadata,
    spec: { backupName: 'any', ...spec },
  };
  const given: object[] = [restore];
  for (const named of [spec.resourceModifier, spec.resourcePolicy]) {
    if (named === undefined) continue;
    const configMap = await admin.get(configMaps, { ...metadata, name: named.name });
    given.push({ apiVersion: 'v1', kind: 'ConfigMap', ...configMap });
  }
  const file = join(plane.folder, 'restore.yaml');
  writeFileSync(file, given.map((one) => JSON.stringify(one)).join('\n---\n'));
  return file;
}

export function predictionOf(line: Line): string {
  const [key = '', , reason = ''] = line.split(' ');
  return `${reason} applications.${APPLICATIONS.group} ${key}`;
}
