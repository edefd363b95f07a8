/** Backups and restores of a real Velero, from the object that a user creates to the files in the object store. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { Resource } from '../../../src/kube/object.ts';
import { RESTORES } from '../velero-crd.ts';
import type { VeleroServer } from './server.ts';

export interface BackupSpec {
  readonly includedNamespaces?: readonly string[];
  readonly includedResources?: readonly string[];
  readonly includeClusterResources?: boolean;
  readonly labelSelector?: { readonly matchLabels: Readonly<Record<string, string>> };
}

export interface RestoreSpec {
  readonly existingResourcePolicy?: 'none' | 'update';
  readonly namespaceMapping?: Readonly<Record<string, string>>;
  readonly includedNamespaces?: readonly string[];
  readonly includedResources?: readonly string[];
  readonly labelSelector?: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly restoreStatus?: { readonly includedResources: readonly string[] };
}

export interface RestoreResult {
  readonly phase: string;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

interface Run extends KubeObject {
  readonly status?: {
    readonly phase?: string;
    readonly failureReason?: string;
    readonly validationErrors?: readonly string[];
  };
}

const BACKUPS: Resource = { ...RESTORES, resource: 'backups', kind: 'Backup' };
const ENDED = ['Completed', 'PartiallyFailed', 'Failed', 'FailedValidation'];
const TIMEOUT_MS = 100_000;

const ref = (name: string) => ({ namespace: 'velero', name });
const run = (name: string, spec: object): KubeObject & { readonly spec: object } => ({
  metadata: ref(name),
  spec,
});

export async function backUp(
  { cluster, bucket }: VeleroServer,
  name: string,
  spec: BackupSpec,
): Promise<string> {
  await cluster.admin.create(BACKUPS, run(name, { snapshotVolumes: false, ...spec }));
  const hasEnded = ({ status }: Run) => ENDED.includes(status?.phase ?? '');
  const { status } = await cluster.see<Run>(`the backup ${name}`, BACKUPS, ref(name), hasEnded, TIMEOUT_MS);
  if (status?.phase !== 'Completed') throw new Error(`the backup ${name}: ${JSON.stringify(status)}`);
  return archiveOf(bucket, name);
}

const archiveOf = (bucket: string, name: string): string => join(bucket, 'backups', name, `${name}.tar.gz`);

export async function beginRestore(
  { cluster }: VeleroServer,
  name: string,
  backup: string,
  spec: RestoreSpec = {},
): Promise<void> {
  await cluster.admin.create(RESTORES, run(name, { backupName: backup, ...spec }));
}

export async function endOfRestore({ cluster, bucket }: VeleroServer, name: string): Promise<RestoreResult> {
  const hasEnded = ({ status }: Run) => ENDED.includes(status?.phase ?? '');
  const { status } = await cluster.see<Run>(`the restore ${name}`, RESTORES, ref(name), hasEnded, TIMEOUT_MS);
  const { phase = '', validationErrors, failureReason } = status ?? {};
  if (phase === 'Failed' || phase === 'FailedValidation')
    return { phase, errors: [...(validationErrors ?? []), failureReason ?? ''], warnings: [] };
  const file = join(bucket, 'restores', name, `restore-${name}-results.gz`);
  const { errors, warnings } = JSON.parse(gunzipSync(readFileSync(file)).toString()) as Results;
  return { phase, errors: linesOf(errors), warnings: linesOf(warnings) };
}

export async function restore(
  velero: VeleroServer,
  name: string,
  backup: string,
  spec: RestoreSpec = {},
): Promise<RestoreResult> {
  await beginRestore(velero, name, backup, spec);
  return await endOfRestore(velero, name);
}

interface Results {
  readonly errors: Result;
  readonly warnings: Result;
}
interface Result {
  readonly velero?: readonly string[];
  readonly cluster?: readonly string[];
  readonly namespaces?: Readonly<Record<string, readonly string[]>>;
}

const linesOf = ({ velero = [], cluster = [], namespaces = {} }: Result): readonly string[] => [
  ...velero,
  ...cluster,
  ...Object.values(namespaces).flat(),
];
