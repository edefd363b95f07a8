/** A cluster in which Gatehouse preserves the owners of Servers, and a user who restores them. */
import { clusterAdmin, DATACENTERS, SERVERS, type Server } from '../../src/cli/sandbox/tour-objects.ts';
import { clusterRoles } from '../../src/kube/well-known.ts';
import { RESTORE_WINDOWS } from '../../src/runtime/resources.ts';
import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../src/api/restore-window.ts';
import type { KubeObject, OwnerReference } from '../../src/json/kube-object.ts';
import type { Cluster } from './cluster.ts';
import { enforceExamples, seeInForce } from './gatehouse-cluster.ts';
import { datacenter, restoreWindow, server, type Conditioned } from './objects.ts';
import { eventually } from './processes.ts';
import { VELERO } from './velero-client.ts';

export type OwnerFlags = Pick<OwnerReference, 'controller' | 'blockOwnerDeletion'>;

export interface SweptWindow extends Conditioned {
  readonly status?: RestoreWindowStatus & NonNullable<Conditioned['status']>;
}

export type OwnerScene = Awaited<ReturnType<typeof createOwnerScene>>;

/** Resolves when Gatehouse records owners. @param finalizers whether Gatehouse may set blockOwnerDeletion */
export async function createOwnerScene(cluster: Cluster, { finalizers } = { finalizers: true }) {
  const { admin } = cluster;
  await enforceExamples(cluster);
  await cluster.applyFolder('examples/owners');
  if (!finalizers) await withoutFinalizers(cluster);
  await cluster.apply(clusterAdmin('test-restorer', VELERO.user), clusterAdmin('test-alice', 'alice'));
  await seeInForce(cluster, 'server-owners');
  const place = (name: string) => ({ namespace: 'shop', name });
  const find = (name: string) => admin.get<Server>(SERVERS, place(name));
  const ownerNamed = async (name: string, flags: OwnerFlags = {}): Promise<OwnerReference> => {
    const owner = await admin.get(DATACENTERS, { name });
    const uid = owner?.metadata?.uid ?? '';
    return { apiVersion: 'infra.example.com/v1', kind: 'Datacenter', name, uid, ...flags };
  };
  const create = (name: string, ownerReferences: readonly OwnerReference[], dryRun = false) =>
    admin.create(SERVERS, server('shop', name, 'fra1', { ownerReferences }), { dryRun });
  await eventually('owners are recorded', async () => {
    const probe = await create('probe', [await ownerNamed('fra1')], true);
    return recordOf(probe) !== undefined;
  });

  return {
    restorer: cluster.impersonate(VELERO),
    alice: await cluster.as('alice'),
    place,
    find,
    ownerNamed,
    create,
    /** A backup of a Server that has an owner of that name; both objects are already deleted. */
    backUp: async (name: string, owner: string, flags?: OwnerFlags) => {
      await admin.create(DATACENTERS, datacenter(owner));
      const stored = await create(name, [await ownerNamed(owner, flags)]);
      await admin.delete(SERVERS, place(name));
      await admin.delete(DATACENTERS, { name: owner });
      return backupOf(stored);
    },
    open: async (name: string, sweep: RestoreWindow['spec']['sweep'] = {}) => {
      const principals = [{ user: VELERO.user }];
      await admin.create(RESTORE_WINDOWS, restoreWindow(name, { principals, sweep }));
      await seeWindow(cluster, name, 'Open');
    },
    close: async (name: string) => {
      await admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });
      return await seeWindow(cluster, name, 'Completed');
    },
    untilGone: async (name: string) => {
      const isGone = async () => (await find(name)) === undefined;
      // The garbage collector looks for new kinds every 30 seconds.
      await eventually(`${name} is gone`, isGone);
    },
  };
}

export const recordOf = (object: KubeObject | undefined): string | undefined =>
  object?.metadata?.annotations?.[OWNER_RECORD_ANNOTATION];

export const ownersOf = (object: KubeObject | undefined): readonly OwnerReference[] =>
  object?.metadata?.ownerReferences ?? [];

/** The object that a backup tool creates: without server-set metadata and without owners. */
export function backupOf({ metadata = {}, ...rest }: Server, name = metadata.name): Server {
  const { namespace, annotations } = metadata;
  const kept = {
    ...(name && { name }),
    ...(namespace && { namespace }),
    ...(annotations && { annotations }),
  };
  return { ...rest, metadata: kept };
}

const seeWindow = (cluster: Cluster, name: string, phase: string): Promise<SweptWindow> =>
  cluster.see<SweptWindow>(
    `${name} is ${phase}`,
    RESTORE_WINDOWS,
    { name },
    ({ status }) => status?.phase === phase,
    20_000,
  );

async function withoutFinalizers({ admin }: Cluster): Promise<void> {
  await admin.patchJson(clusterRoles, { name: 'gatehouse-owners-infra' }, [
    { op: 'test', path: '/rules/2/resources', value: ['datacenters/finalizers'] },
    { op: 'remove', path: '/rules/2' },
  ]);
}
