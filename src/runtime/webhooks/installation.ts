/** On the leader: the owner of what it writes in the whole cluster, and whether Gatehouse is being removed. Both read live. */
import {
  INSTALLATION_ROLE,
  installationOwner,
  roleReferences,
} from '../../admission/webhooks/installation-owner.ts';
import { messageOf } from '../../json/abort.ts';
import { objectIn, textIn } from '../../json/json.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { isForbidden, isRefused } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { clusterRoles, namespaces, services, endpointSlices } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { createListeners } from '../listeners.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { SERVICE_NAME_LABEL, type EndpointSlice } from '../endpoints/slices.ts';
import { type configurationTarget, readConfigurations } from './installed-webhooks.ts';

interface Place {
  readonly namespace: string;
  readonly service: string;
}

export interface InstallationOptions extends Place {
  readonly client: Pick<KubeClient, 'get'>;
  readonly monotonic: () => number;
  readonly log: Log;
}

export type Installation = ReturnType<typeof createInstallation>;

/** In milliseconds. So long, the garbage collector may still delete what the role owned, and a removal may still go on. */
const CHANGING_MS = 10_000;

export function createInstallation(options: InstallationOptions) {
  const { client, monotonic, log } = options;
  const listeners = createListeners<[]>();
  const tellRefused = createTelling(log, 'Gatehouse were removed');
  const tellMissing = createTelling(log, 'Gatehouse were removed');
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
    obstacle: async (signal: AbortSignal): Promise<string | undefined> => {
      const { namespace, service: name } = options;
      const [service, own] = await Promise.all([
        client.get<KubeObject>(services, { namespace, name }, { signal }),
        client.get<KubeObject>(namespaces, { name: namespace }, { signal }),
      ]);
      if (own === undefined || own.metadata?.deletionTimestamp !== undefined)
        return `the namespace ${namespace} is being deleted`;
      if (service === undefined) return missingService(options);
      if (known?.uid !== undefined || !isChanging()) return undefined;
      return `ClusterRole ${INSTALLATION_ROLE} has just been deleted`;
    },
    /** Or without it if the API server refuses it: OwnerReferencesPermissionEnforcement asks for the permission to delete. */
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
    onChange: listeners.add,
  };
}

/** Warns once of each problem, and again after it was over. */
function createTelling(log: Log, when: string) {
  const told = new Set<string>();
  return (problem: string | undefined): void => {
    if (problem === undefined) told.clear();
    else if (!told.has(problem)) {
      told.add(problem);
      log.warn({ problem }, `the webhook configurations would stay if ${when}`);
    }
  };
}

/** The manifest with the permissions on the installation. */
const CLUSTER_ROLE = 'deploy/base/controllers-account.yaml';
const MISSING = `ClusterRole ${INSTALLATION_ROLE} does not exist: apply the manifests of deploy/`;

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

/** No watch reports changes by other clients: the leader reverts them within this time, in milliseconds. */
const RECHECK_MS = 60_000;

export function createLinkInstallationReconciler(
  client: Pick<KubeClient, 'get' | 'patchMerge'>,
  namespace: string,
  log: Log,
): Reconcile {
  const tell = createTelling(log, 'the namespace of Gatehouse were deleted');
  const link = async (signal: AbortSignal): Promise<void> => {
    const ref = { name: INSTALLATION_ROLE };
    const role = await client.get<KubeObject>(clusterRoles, ref, { signal });
    const own = await client.get<KubeObject>(namespaces, { name: namespace }, { signal });
    if (role === undefined || own === undefined) return;
    const ownerReferences = roleReferences(role, own);
    if (ownerReferences === undefined) return;
    const { uid, resourceVersion } = role.metadata ?? {};
    const patch = { metadata: { uid, resourceVersion, ownerReferences } };
    await client.patchMerge(clusterRoles, ref, patch, { signal });
    const owners = ownerReferences.map(({ kind, name }) => `${kind} ${name}`);
    log.info({ role: INSTALLATION_ROLE, owners }, 'wrote the owner of the installation');
  };
  return async (_key, signal) => {
    try {
      await link(signal);
      tell(undefined);
    } catch (error) {
      if (!isRefused(error)) throw error;
      const rights = `get, patch and delete of ClusterRole ${INSTALLATION_ROLE} (${CLUSTER_ROLE})`;
      tell(`permit ${rights}. ${error.message}`);
    }
    return requeueIn(RECHECK_MS, new Date());
  };
}

export function startLinkInstallation(
  context: Context,
  installation: Pick<Installation, 'onChange'>,
  signal: AbortSignal,
): RunningController {
  const { client, config, log } = context;
  const reconcile = createLinkInstallationReconciler(client, config.namespace, log);
  const options = { name: 'installation', key: INSTALLATION_ROLE, on: [installation.onChange], reconcile };
  return startController(context, options, signal);
}

type Client = Pick<KubeClient, 'get' | 'listAll'>;

export const missingService = ({ namespace, service }: Place): string =>
  `Service ${namespace}/${service} does not exist: create it, or name another one with --service`;

/** Why no replica can serve; undefined: one can, or a Service without selector leads elsewhere. */
export async function servingObstacle(
  client: Client,
  place: Place,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { namespace, service: name } = place;
  const service = await client.get<KubeObject>(services, { namespace, name }, { signal });
  if (service === undefined) return missingService(place);
  const selector = objectIn(service, 'spec', 'selector');
  if (textIn(service, 'spec', 'type') === 'ExternalName' || Object.keys(selector).length === 0)
    return undefined;
  const labelSelector = `${SERVICE_NAME_LABEL}=${name}`;
  try {
    const options = { namespace, labelSelector, signal };
    const { items } = await client.listAll<EndpointSlice>(endpointSlices, options);
    const all = items.flatMap(({ endpoints }) => endpoints ?? []);
    return all.some(({ conditions }) => conditions?.ready !== false)
      ? undefined
      : `Service ${namespace}/${name}: no endpoint is ready yet`;
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return `the leader lacks permission to list the EndpointSlices of namespace ${namespace}: permit it (${CLUSTER_ROLE})`;
  }
}

type Target = ReturnType<typeof configurationTarget>['service'];

/**
 * Entries with failurePolicy Fail would refuse the writes of the whole cluster, so the first ones wait until a replica serves.
 * Later ones do not wait. Entries that lead elsewhere, after a wrong `--service`, remain until the target serves.
 */
export function createFirstInstallation(
  client: Client,
  target: Target,
  obstacle: (signal: AbortSignal) => Promise<string | undefined>,
) {
  let isOver = false;
  return async (signal: AbortSignal): Promise<string | undefined> => {
    if (isOver) return undefined;
    const found = await Promise.allSettled(readConfigurations(client, signal));
    const isInstalled = found.some((one) => one.status === 'fulfilled' && failsClosed(one.value, target));
    const problem = isInstalled ? undefined : await obstacle(signal);
    isOver = problem === undefined;
    return problem;
  };
}

const failsClosed = (configuration: LiveWebhookConfiguration | undefined, target: Target): boolean =>
  (configuration?.webhooks ?? []).some(
    ({ failurePolicy, clientConfig: { service } }) =>
      failurePolicy !== 'Ignore' &&
      service?.namespace === target.namespace &&
      service.name === target.name &&
      service.port === target.port,
  );
