/**
 * On the leader: webhook entries with failurePolicy Fail are installed only once a replica can serve them. Without this, an
 * installation without its Service, or with replicas that do not start, would refuse the writes of the whole cluster.
 */
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { endpointSlices, services } from '../../kube/well-known.ts';
import { SERVICE_NAME_LABEL, type EndpointSlice } from '../endpoints/slices.ts';
import { CLUSTER_ROLE } from '../write-refused.ts';
import { WEBHOOK_CONFIGURATIONS, type configurationTarget } from './installed-webhooks.ts';

interface OwnService extends KubeObject {
  readonly spec?: { readonly type?: string; readonly selector?: Readonly<Record<string, string>> };
}

type Client = Pick<KubeClient, 'get' | 'listAll'>;

interface Place {
  readonly namespace: string;
  /** The name of the Service. */
  readonly service: string;
}

export const missingService = ({ namespace, service }: Place): string =>
  `Service ${namespace}/${service} does not exist: create it, or name another one with --service`;

/** Why no replica can serve; undefined: one can, or a Service without selector leads elsewhere. */
export async function servingObstacle(
  client: Client,
  place: Place,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { namespace, service: name } = place;
  const service = await client.get<OwnService>(services, { namespace, name }, { signal });
  if (service === undefined) return missingService(place);
  const { type, selector = {} } = service.spec ?? {};
  if (type === 'ExternalName' || Object.keys(selector).length === 0) return undefined;
  const labelSelector = `${SERVICE_NAME_LABEL}=${name}`;
  try {
    const { items } = await client.listAll<EndpointSlice>(endpointSlices, {
      namespace,
      labelSelector,
      signal,
    });
    const isReady = items.some(({ endpoints }) =>
      (endpoints ?? []).some(({ conditions }) => conditions?.ready !== false),
    );
    return isReady ? undefined : `Service ${namespace}/${name} has no ready endpoint yet`;
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return `the leader may not list the EndpointSlices of namespace ${namespace}: permit it (${CLUSTER_ROLE})`;
  }
}

type Target = ReturnType<typeof configurationTarget>['service'];

/**
 * Returns a function that says why the entries must wait; undefined: install them. Once entries lead to the target, it never
 * holds a write back: they must not disappear when the replicas do. Entries that lead elsewhere stay until the target
 * serves: after a wrong `--service` they would refuse all writes.
 */
export function createFirstInstallation(
  client: Client,
  target: Target,
  obstacle: (signal: AbortSignal) => Promise<string | undefined>,
) {
  let isOver = false;
  return async (signal: AbortSignal): Promise<string | undefined> => {
    if (isOver) return undefined;
    const found = await Promise.allSettled(
      Object.values(WEBHOOK_CONFIGURATIONS).map((kind) =>
        client.get<LiveWebhookConfiguration>(kind, { name: WEBHOOK_CONFIGURATION_NAME }, { signal }),
      ),
    );
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
