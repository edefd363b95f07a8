/** A real Velero as a process next to the control plane. Without volumes, it doesn't need pods. */
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

import type { KubeObject } from '../../../src/json/kube-object.ts';
import { established, type Cluster } from '../cluster.ts';
import { ready } from '../control-plane-site.ts';
import { writeKubeconfig } from '../control-plane-users.ts';
import { resourceOf } from '../definitions.ts';
import { programFolder } from '../go-programs.ts';
import { freePort, outputOf, startProgram, type Program } from '../processes.ts';
import type { Resource } from '../../../src/kube/object.ts';
import { RESTORES } from '../velero-client.ts';

type VeleroServer = Awaited<ReturnType<typeof startVelero>>;

const NAMESPACE = 'velero';
const BUCKET = 'bucket';

/** Does what `velero install` does, with zero replicas, and starts the server as Velero's service account. */
export async function startVelero(cluster: Cluster) {
  const folder = join(cluster.plane.folder, 'velero');
  const programs = await programFolder('velero');
  for (const name of ['plugins', 'store', 'tmp']) mkdirSync(join(folder, name), { recursive: true });
  symlinkSync(join(programs, 'folder-store'), join(folder, 'plugins', 'folder-store'));
  await install(cluster, join(programs, 'velero'), join(folder, 'store'));
  await connect(cluster, { namespace: NAMESPACE, name: 'velero' }, join(folder, 'kubeconfig'));

  let program: Program | undefined;
  const start = async () => {
    const port = await freePort();
    program = startProgram(join(programs, 'velero'), argumentsOf(folder, port), {
      logFile: join(folder, 'velero.log'),
      env: { ...process.env, HOME: folder, TMPDIR: join(folder, 'tmp') },
      withChildren: true, // its plugins
    });
    await ready('Velero', program, async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).ok);
  };
  await start();
  const place = { namespace: NAMESPACE, name: 'default' };
  await cluster.see<Location>('a usable object store', LOCATIONS, place, isUsable);
  return {
    cluster,
    bucket: join(folder, 'store', BUCKET),
    /** Resolves when Velero has marked what it had begun before as failed. */
    start,
    kill: async () => {
      program?.kill('SIGKILL');
      await program?.exited;
    },
    stop: async () => {
      await program?.stop();
    },
  };
}

const argumentsOf = (folder: string, port: number): readonly string[] => [
  'server',
  ...['--kubeconfig', join(folder, 'kubeconfig')],
  ...['--plugin-dir', join(folder, 'plugins')],
  ...['--metrics-address', `127.0.0.1:${port}`],
  ...['--profiler-address', ''],
  ...['--item-operation-sync-frequency', '1s'],
  ...['--concurrent-backups', '20'], // one that has to wait may do so for a minute
];

interface Location extends KubeObject {
  readonly status?: { readonly phase?: string };
}

const LOCATIONS = resourceOf('velero.io', 'backupstoragelocations', 'BackupStorageLocation');
const isUsable = ({ status }: Location): boolean => status?.phase === 'Available';

async function install(cluster: Cluster, velero: string, folder: string): Promise<void> {
  const printed = await printedManifests(velero, cluster.plane.kubeconfig('admin'));
  // Plugins of Velero read the Deployment.
  const manifests = printed.map((one) =>
    one.kind === 'Deployment' ? { ...one, spec: { ...one.spec, replicas: 0 } } : one,
  );
  await cluster.apply(...manifests);
  for (const { kind, metadata } of manifests)
    if (kind === 'CustomResourceDefinition') await established(cluster, metadata?.name ?? '');
  mkdirSync(join(folder, BUCKET));
  const store = { objectStorage: { bucket: BUCKET }, config: { folder } };
  const spec = { provider: 'gatehouse.dev/folder', default: true, ...store };
  const location: KubeObject & { readonly spec: object } = {
    apiVersion: 'velero.io/v1',
    kind: LOCATIONS.kind,
    spec,
    metadata: { namespace: NAMESPACE, name: 'default' },
  };
  await cluster.apply(location);
}

type Manifest = KubeObject & { readonly spec?: object };

/** Without writing anything. The program wants a kubeconfig nevertheless. */
async function printedManifests(velero: string, kubeconfig: string): Promise<readonly Manifest[]> {
  const args = ['--dry-run', '-o', 'json', '--no-default-backup-location', '--no-secret'];
  const more = ['--use-volume-snapshots=false', '--kubeconfig', kubeconfig];
  const { printed, complaints, code } = await outputOf(velero, ['install', ...args, ...more]);
  if (code !== 0) throw new Error(`velero install failed (${String(code)}): ${complaints}${printed}`);
  return (JSON.parse(printed) as { readonly items: readonly Manifest[] }).items; // a List
}

/** Writes a kubeconfig with a token of the service account. */
export async function connect(
  { adminRest, plane }: Cluster,
  account: { readonly namespace: string; readonly name: string },
  kubeconfig: string,
): Promise<void> {
  const { status } = await adminRest.request<{ readonly status: { readonly token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 86_400 },
    },
  });
  writeKubeconfig(kubeconfig, plane.server, plane.ca, status.token);
}

interface LabelSelector {
  readonly matchLabels: Readonly<Record<string, string>>;
}

export interface BackupSpec {
  readonly includedNamespaces?: readonly string[];
  readonly includedResources?: readonly string[];
  readonly includeClusterResources?: boolean;
  readonly labelSelector?: LabelSelector;
}

export interface RestoreSpec {
  readonly existingResourcePolicy?: 'none' | 'update';
  readonly namespaceMapping?: Readonly<Record<string, string>>;
  readonly includedNamespaces?: readonly string[];
  readonly excludedNamespaces?: readonly string[];
  readonly includedResources?: readonly string[];
  readonly excludedResources?: readonly string[];
  readonly includeClusterResources?: boolean;
  readonly labelSelector?: LabelSelector;
  readonly orLabelSelectors?: readonly LabelSelector[];
  readonly preserveNodePorts?: boolean;
  readonly restoreStatus?: { readonly includedResources: readonly string[] };
  readonly resourceModifier?: { readonly kind: 'ConfigMap'; readonly name: string };
  readonly resourcePolicy?: { readonly kind: 'ConfigMap'; readonly name: string };
}

export interface RestoreResult {
  readonly phase: string;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  /** By `v1/ConfigMap`: `shop/settings(created)`; or `updated`, `skipped`, `failed`. */
  readonly items: Readonly<Record<string, readonly string[]>>;
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
    return { phase, errors: [...(validationErrors ?? []), failureReason ?? ''], warnings: [], items: {} };
  const read = (what: string): unknown =>
    JSON.parse(
      gunzipSync(readFileSync(join(bucket, 'restores', name, `restore-${name}-${what}.gz`))).toString(),
    );
  const { errors, warnings } = read('results') as Record<'errors' | 'warnings', Result>;
  const items = read('resource-list.json') as RestoreResult['items'];
  return { phase, errors: linesOf(errors), warnings: linesOf(warnings), items };
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
