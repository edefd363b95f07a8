/** A real Velero as a process next to the control plane. Without volumes, it doesn't need pods. */
import { spawn } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import type { KubeObject } from '../../../src/json/kube-object.ts';
import { established, type Cluster } from '../cluster.ts';
import { ready } from '../control-plane-site.ts';
import { writeKubeconfig } from '../control-plane-users.ts';
import { resourceOf } from '../definitions.ts';
import { programFolder } from '../go-programs.ts';
import { freePort, startProgram, type Program } from '../processes.ts';

export type VeleroServer = Awaited<ReturnType<typeof startVelero>>;

const NAMESPACE = 'velero';
const BUCKET = 'bucket';

/** Does what `velero install` does, with zero replicas, and starts the server as Velero's service account. */
export async function startVelero(cluster: Cluster) {
  const folder = join(cluster.plane.folder, 'velero');
  const programs = await programFolder('velero');
  for (const name of ['plugins', 'store', 'tmp']) mkdirSync(join(folder, name), { recursive: true });
  symlinkSync(join(programs, 'folder-store'), join(folder, 'plugins', 'folder-store'));
  await install(cluster, join(programs, 'velero'), join(folder, 'store'));
  await connect(cluster, join(folder, 'kubeconfig'));

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
  const child = spawn(velero, ['install', ...args, ...more], { stdio: 'pipe' });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  const [printed, complaints, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) throw new Error(`velero install failed (${String(code)}): ${complaints}${printed}`);
  return (JSON.parse(printed) as { readonly items: readonly Manifest[] }).items; // a List
}

interface TokenRequest {
  readonly status: { readonly token: string };
}

/** Velero writes as the service account that `velero install` creates. */
async function connect({ adminRest, plane }: Cluster, kubeconfig: string): Promise<void> {
  const { status } = await adminRest.request<TokenRequest>({
    method: 'POST',
    path: `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/velero/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 86_400 },
    },
  });
  writeKubeconfig(kubeconfig, plane.server, plane.ca, status.token);
}
