/**
 * On the leader: the owner of what it writes for admission in the whole cluster, and whether Gatehouse is being removed.
 * Both are read live before each write.
 */
import { INSTALLATION_ROLE, installationOwner } from '../../admission/webhooks/installation-owner.ts';
import { messageOf } from '../../json/error-message.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { clusterRoles, namespaces, services } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { createListeners } from '../listeners.ts';
import { CLUSTER_ROLE } from '../write-refused.ts';
import { missingService } from './first-installation.ts';

export interface InstallationOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly namespace: string;
  /** The name of the Service. */
  readonly service: string;
  readonly monotonic: () => number;
  readonly log: Log;
}

export type Installation = ReturnType<typeof createInstallation>;

/**
 * How long after a change of the role, in milliseconds, the garbage collector may still delete what it owned, and a removal may
 * still go on: `kubectl delete` and Helm send all their requests within some seconds.
 */
const CHANGING_MS = 10_000;

export function createInstallation(options: InstallationOptions) {
  const { client, monotonic, log } = options;
  const listeners = createListeners<[]>();
  const tellRefused = createTelling(log);
  const tellMissing = createTelling(log);
  /** The uid of the role at the last read. */
  let known: { readonly uid: string | undefined } | undefined;
  let changedAt = Number.NEGATIVE_INFINITY;

  const observe = (uid: string | undefined): void => {
    tellMissing(uid === undefined ? MISSING : undefined);
    const before = known;
    known = { uid };
    if (before === undefined || before.uid === uid) return;
    if (before.uid !== undefined) changedAt = monotonic();
    listeners.tell();
  };
  const isChanging = (): boolean => monotonic() - changedAt < CHANGING_MS;

  return {
    /** Undefined: write without an owner, because protection matters more. */
    owner: async (signal: AbortSignal): Promise<OwnerReference | undefined> => {
      const role = await readRole(client, signal);
      if (typeof role === 'string') {
        tellMissing(role);
        return undefined;
      }
      const { uid, deletionTimestamp } = role?.metadata ?? {};
      const current = deletionTimestamp === undefined ? uid : undefined;
      observe(current);
      return current === undefined ? undefined : installationOwner(current);
    },
    /** Why nothing may be created: somebody removes Gatehouse, so nobody would serve it. Undefined: create it. */
    obstacle: async (signal: AbortSignal): Promise<string | undefined> => {
      const { namespace, service: name } = options;
      const [service, own] = await Promise.all([
        client.get<KubeObject>(services, { namespace, name }, { signal }),
        client.get<KubeObject>(namespaces, { name: namespace }, { signal }),
      ]);
      if (own === undefined || own.metadata?.deletionTimestamp !== undefined)
        return `the namespace ${namespace} is being deleted`;
      if (service === undefined) return missingService(options);
      return known?.uid === undefined && isChanging()
        ? `ClusterRole ${INSTALLATION_ROLE} has just been deleted`
        : undefined;
    },
    /**
     * Writes with this owner, or without it if the API server refuses it: its plugin OwnerReferencesPermissionEnforcement asks
     * whether the leader may delete the object.
     */
    withOwner: async <T>(
      owner: OwnerReference | undefined,
      write: (owner: OwnerReference | undefined) => Promise<T>,
    ): Promise<T> => {
      try {
        return await write(owner);
      } catch (error) {
        if (owner === undefined || !isForbidden(error) || !/ownerRef/i.test(error.message)) throw error;
        tellRefused(`the API server refuses the owner: permit delete (${CLUSTER_ROLE}). ${error.message}`);
        return await write(undefined);
      }
    },
    /** Whether the role has been deleted or created again within the last seconds: look again soon. */
    isChanging,
    /** Called when the role has been deleted or created. */
    onChange: listeners.add,
  };
}

/** Warns once of each problem, and again after it was over. */
function createTelling(log: Log) {
  const told = new Set<string>();
  return (problem: string | undefined): void => {
    if (problem === undefined) told.clear();
    else if (!told.has(problem)) {
      told.add(problem);
      log.warn({ problem }, 'the webhook configurations would stay if Gatehouse were removed');
    }
  };
}

const MISSING = `ClusterRole ${INSTALLATION_ROLE} does not exist: apply the manifests of deploy/`;

/** Undefined: it does not exist. A text: why it cannot be read. */
async function readRole(
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<KubeObject | undefined | string> {
  try {
    return await client.get<KubeObject>(clusterRoles, { name: INSTALLATION_ROLE }, { signal });
  } catch (error) {
    signal.throwIfAborted();
    return `could not read ClusterRole ${INSTALLATION_ROLE}: permit it (${CLUSTER_ROLE}). ${messageOf(error)}`;
  }
}
