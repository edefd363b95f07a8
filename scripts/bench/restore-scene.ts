/** Prepares a cluster for the restore of many objects: kinds, policy, Velero. */
import { applyManifests } from '../../src/cli/deploy-manifests.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { GATEHOUSE_GROUP } from '../../test/support/control-plane.ts';
import { eventually } from '../../test/support/processes.ts';
import {
  application,
  applicationPolicy,
  APPLICATIONS,
  kindManifests,
  zone,
  ZONES,
} from '../../test/support/restore-kinds.ts';
import { asReturned, verdictOf } from '../../test/support/restore-scene.ts';
import { restoreDefinition, RESTORES, VELERO, type BackupObject } from '../../test/support/velero-client.ts';
import type { ClusterProcess } from './cluster-process.ts';

const NAMESPACES = 10;
const FLOOR = 'bench-floor';
const SHARE_OF_ZONES = 10;

export const namespaceFor = (index: number): string => `restored-${index % NAMESPACES}`;

const namespaces = Array.from({ length: NAMESPACES }, (_, index) => namespaceFor(index));
const floorOf = (name = ''): string => name.replace('restored-', 'floor-');

export const inFloor = (object: BackupObject): BackupObject => ({
  ...object,
  metadata: { ...object.metadata, namespace: floorOf(object.metadata.namespace) },
});

export async function prepareRestores(cluster: ClusterProcess): Promise<void> {
  await apply(
    cluster,
    ...kindManifests,
    restoreDefinition,
    clusterAdmin('velero', VELERO.user),
    ...['velero', ...namespaces].map((name) => namespace(name)),
    ...namespaces.map((name) => namespace(floorOf(name), { [FLOOR]: 'true' })),
    readerBinding,
  );
  await Promise.all(
    [APPLICATIONS, ZONES, RESTORES].map((resource) =>
      eventually(`${resource.resource} are served`, async () => {
        await cluster.client.list(resource, { limit: 1 });
        return true;
      }),
    ),
  );
}

const namespace = (name: string, labels = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});

/** Resolves when the API server calls the webhooks for Applications. */
export async function enforcePolicy(cluster: ClusterProcess): Promise<void> {
  const { spec } = applicationPolicy;
  const namespaceSelector = { matchExpressions: [{ key: FLOOR, operator: 'DoesNotExist' }] };
  const policy = { ...applicationPolicy, spec: { ...spec, match: { ...spec.match, namespaceSelector } } };
  await apply(cluster, policy);
  const probe = application(namespaceFor(0), 'probe', { zone: 'nowhere' });
  await eventually(
    'the policy is enforced',
    async () => (await verdictOf(cluster.client, probe, { dryRun: true })).includes('spec.zone'),
    { timeoutMs: 60_000 },
  );
}

/** The most expensive order: each Application comes before the Zone that it refers to. */
export function backupOf(count: number): readonly BackupObject[] {
  const zones = count / SHARE_OF_ZONES;
  return Array.from({ length: count }, (_, index) =>
    index < zones
      ? asReturned(zone(`zone-${index}`))
      : asReturned(application(namespaceFor(index), `app-${index}`, { zone: `zone-${index % zones}` })),
  );
}

export async function apply(
  { client, rest }: ClusterProcess,
  ...manifests: readonly KubeObject[]
): Promise<void> {
  const discovery = createDiscovery(rest, systemClock);
  await applyManifests({ client, discovery, namespace: 'default' }, manifests);
}

/** Directly: without the controller manager, nothing fills aggregated ClusterRoles. */
const readerBinding: KubeObject & { readonly roleRef: object; readonly subjects: readonly object[] } = {
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'ClusterRoleBinding',
  metadata: { name: 'gatehouse-references-restore' },
  roleRef: {
    apiGroup: 'rbac.authorization.k8s.io',
    kind: 'ClusterRole',
    name: 'gatehouse-references-restore',
  },
  subjects: [GATEHOUSE_GROUP],
};
