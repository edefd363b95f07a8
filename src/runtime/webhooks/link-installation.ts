/** On the leader: makes the namespace of Gatehouse the owner of the ClusterRole that owns the webhook configurations. */
import { INSTALLATION_ROLE, roleReferences } from '../../admission/webhooks/installation-owner.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isRefused } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { clusterRoles, namespaces } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';
import { CLUSTER_ROLE } from '../write-refused.ts';
import type { Installation } from './installation.ts';

/** No watch reports changes by other clients: the leader reverts them within this time, in milliseconds. */
const RECHECK_MS = 60_000;

export interface LinkInstallationOptions {
  readonly client: Pick<KubeClient, 'get' | 'patchMerge'>;
  readonly namespace: string;
  readonly now: () => Date;
  readonly log: Log;
}

export function createLinkInstallationReconciler(options: LinkInstallationOptions): Reconcile {
  const { now, log } = options;
  let isTold = false;
  return async (_key, signal) => {
    try {
      await link(options, signal);
      isTold = false;
    } catch (error) {
      if (!isRefused(error)) throw error;
      const problem = `permit get, patch and delete of ClusterRole ${INSTALLATION_ROLE} (${CLUSTER_ROLE}). ${error.message}`;
      if (!isTold)
        log.warn(
          { problem },
          'the webhook configurations would stay if the namespace of Gatehouse were deleted',
        );
      isTold = true;
    }
    return requeueIn(RECHECK_MS, now());
  };
}

async function link({ client, namespace, log }: LinkInstallationOptions, signal: AbortSignal): Promise<void> {
  const ref = { name: INSTALLATION_ROLE };
  const role = await client.get<KubeObject>(clusterRoles, ref, { signal });
  const own = await client.get<KubeObject>(namespaces, { name: namespace }, { signal });
  if (role === undefined || own === undefined) return;
  const ownerReferences = roleReferences(role, own);
  if (ownerReferences === undefined) return;
  const { uid, resourceVersion } = role.metadata ?? {};
  const patch = { metadata: { uid, resourceVersion, ownerReferences } };
  await client.patchMerge(clusterRoles, ref, patch, { signal });
  log.info(
    { role: INSTALLATION_ROLE, owners: ownerReferences.map(({ kind, name }) => `${kind} ${name}`) },
    'wrote the owner of the installation',
  );
}

export function startLinkInstallation(
  {
    client,
    config,
    metrics,
    tracing,
    log,
  }: Pick<Context, 'client' | 'config' | 'metrics' | 'tracing' | 'log'>,
  installation: Pick<Installation, 'onChange'>,
  signal: AbortSignal,
): RunningController {
  const { namespace } = config;
  const now = () => new Date();
  const reconcile = createLinkInstallationReconciler({ client, namespace, now, log });
  const on = [installation.onChange];
  const options = { name: 'installation', key: INSTALLATION_ROLE, on, reconcile };
  return startController({ metrics, tracing, log }, options, signal);
}
