/** A cluster with Gatehouse, a policy on kinds in the wrong order, and Velero: the starting point of restore tests. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import type { RestoreDetector } from '../../src/api/restore-detector.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { toTimestamp, type KubeObject } from '../../src/json/kube-object.ts';
import { RESTORE_DETECTORS } from '../../src/runtime/resources.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { established, RESTORE_WINDOWS, type Cluster, createNamespace } from './cluster.ts';
import { outcomeOf, seeInForce, untilRefused } from './gatehouse-cluster.ts';
import { eventually } from './processes.ts';
import {
  application,
  applicationPolicy,
  APPLICATIONS,
  kindManifests,
  type Application,
} from './restore-kinds.ts';
import { backupObject, RESTORES, VELERO, type BackupObject } from './velero-client.ts';

const DETECTORS = join(import.meta.dirname, '..', '..', 'deploy', 'detectors');

/** Installs the kinds, and alice, an ordinary user who may write everything. */
export async function installKinds(cluster: Cluster): Promise<void> {
  await cluster.apply(...kindManifests, clusterAdmin('alice', 'alice'));
  await established(cluster, 'applications.restore.example.com');
  await established(cluster, 'zones.restore.example.com');
}

export async function enforceApplications(cluster: Cluster): Promise<void> {
  await cluster.apply(applicationPolicy);
  await seeInForce(cluster, 'applications');
  await createNamespace(cluster, 'probe');
  await untilRefused('an Application without its zone', 'spec.zone', () =>
    cluster.admin.create(APPLICATIONS, application('probe', 'probe', { zone: 'nowhere' }), { dryRun: true }),
  );
}

/** Applies the shipped Velero detector; it trusts Velero's namespace and uses short times for tests. */
export const trustVelero = (
  cluster: Cluster,
  window: RestoreDetector['spec']['window'] = { settle: '2s', idle: '1s' },
): Promise<void> => enableDetector(cluster, 'velero', { namespaces: ['velero'], window });

/** Applies a shipped detector with changes. */
export async function enableDetector(
  cluster: Cluster,
  folder: string,
  changes: Partial<RestoreDetector['spec']>,
): Promise<void> {
  await cluster.apply(
    ...readManifests(join(DETECTORS, folder)).map((manifest) =>
      isDetector(manifest) ? { ...manifest, spec: { ...manifest.spec, ...changes } } : manifest,
    ),
  );
}

const isDetector = (manifest: KubeObject): manifest is RestoreDetector => manifest.kind === 'RestoreDetector';

/** An object as a cluster returns it later: with every field that a restore must strip. */
export function asReturned(object: KubeObject & { readonly status?: object }): BackupObject {
  const { namespace = '', name = '' } = object.metadata ?? {};
  const time = '2026-11-01T08:00:00Z';
  const digest = createHash('sha256')
    .update(`${object.kind ?? ''} ${namespace}/${name}`)
    .digest('hex');
  return backupObject({
    ...object,
    metadata: {
      ...object.metadata,
      uid: `${digest.slice(0, 8)}-${digest.slice(8, 12)}-4${digest.slice(12, 15)}-8${digest.slice(15, 18)}-${digest.slice(18, 30)}`,
      resourceVersion: '4711',
      generation: 3,
      creationTimestamp: time,
      managedFields: [
        {
          manager: 'kubectl',
          operation: 'Apply',
          apiVersion: object.apiVersion,
          time,
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:spec': {} },
        },
      ],
    },
    status: object.status ?? { ready: true },
  } as KubeObject);
}

export const verdictOf = (
  client: KubeClient,
  object: Application,
  options: { readonly dryRun?: boolean } = {},
): Promise<string> => outcomeOf(client.create(APPLICATIONS, object, options));

/** The name of the window that Gatehouse creates for a Restore; users can derive it from the Restore. */
export async function windowNameOf(cluster: Cluster, restore: string, namespace = 'velero'): Promise<string> {
  const found = await cluster.admin.get(RESTORES, { namespace, name: restore });
  const uid = found?.metadata?.uid;
  if (uid === undefined) throw new Error(`there is no Restore ${restore}`);
  return `velero-${createHash('sha256').update(uid).digest('hex').slice(0, 12)}`;
}

export async function seeWindowOf(
  cluster: Cluster,
  restore: string,
  what: string,
  accept: (window: RestoreWindow) => boolean,
  timeoutMs = 60_000,
): Promise<RestoreWindow> {
  const name = await windowNameOf(cluster, restore);
  return await cluster.see<RestoreWindow>(what, RESTORE_WINDOWS, { name }, accept, timeoutMs);
}

export const seeReportOf = (cluster: Cluster, restore: string): Promise<RestoreWindow> =>
  seeWindowOf(
    cluster,
    restore,
    `the report on ${restore}`,
    ({ status }) => status?.phase === 'Completed' || status?.phase === 'CompletedWithViolations',
    120_000,
  );

export const isVerified = ({ status }: RestoreWindow): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'IntegrityVerified' && is === 'True') ?? false;

/** Resolves when the leader has processed the current detector. */
export const untilDetectorIsProcessed = (cluster: Cluster, name = 'velero'): Promise<RestoreDetector> =>
  cluster.see<RestoreDetector>(
    'the detector is processed',
    RESTORE_DETECTORS,
    { name },
    ({ metadata, status }) =>
      status?.conditions?.find(({ type }) => type === 'Watching')?.observedGeneration === metadata.generation,
  );

/** Waits until the replicas know the detector. A real Velero leaves this Restore alone: it has not begun it. */
export async function untilDetectorCounts(cluster: Cluster): Promise<void> {
  const ref = { namespace: 'velero', name: `warm-up-${Date.now()}` };
  const begun: KubeObject & { readonly spec: object; readonly status: object } = {
    metadata: ref,
    spec: { backupName: 'none' },
    status: { phase: 'InProgress', startTimestamp: toTimestamp(new Date()) },
  };
  await cluster.admin.create(RESTORES, begun);
  const restorer = cluster.impersonate(VELERO);
  const probe = application('probe', 'warm-up', { zone: 'none' });
  await eventually(
    'the detector is in force',
    async () => (await verdictOf(restorer, probe, { dryRun: true })) === 'allowed',
  );
  await cluster.admin.patchMerge(RESTORES, ref, { status: { phase: 'Completed' } });
}
