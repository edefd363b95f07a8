/** What the authority asks of the API server before it decides: nothing here comes from a store. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { AuthorityDeps } from './authority.ts';
import type { ConfigMap } from './ca-bundle.ts';
import type { PublishedBundle } from './rotation.ts';
import type { KubeClient } from '../../kube/client.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import {
  CA_BUNDLE_KEY,
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_LABEL,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
} from '../../pki/annotations.ts';
import { windowState } from '../../restore/window.ts';
import type { Context } from '../context.ts';
import { RESTORE_WINDOWS } from '../resources.ts';

type AuthorityAccess = Pick<AuthorityDeps, 'readPublished' | 'countLeaves' | 'paused'>;

/** A CA begins an hour before it is made, and serving certs a few minutes: clocks further apart than that undo it. */
const MAX_SKEW_MS = 3_600_000;

export function authorityAccess({
  client,
  config,
  serverClock,
}: Pick<Context, 'client' | 'config' | 'serverClock'>): AuthorityAccess {
  return {
    readPublished: async (signal) => [
      ...(await readConfigMap(client, config.namespace, signal)),
      ...(await readConfiguration(client, mutatingWebhookConfigurations, signal)),
      ...(await readConfiguration(client, validatingWebhookConfigurations, signal)),
    ],
    countLeaves: (signal) => countLeaves(client, signal),
    paused: async (signal) => {
      const skew = serverClock.skewMs() ?? 0;
      if (Math.abs(skew) > MAX_SKEW_MS)
        return `the clock of this replica and that of the API server are ${Math.round(Math.abs(skew) / 60_000)} minutes apart`;
      const { items } = await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal });
      const open = items.find((window) => windowState(window, serverClock.now()).kind === 'open');
      return open === undefined ? undefined : `the restore window ${open.metadata.name ?? ''} is open`;
    },
  };
}

async function readConfigMap(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly PublishedBundle[]> {
  const found = await client.get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }, { signal });
  if (found === undefined) return [];
  // Also one that was emptied shows that there has been a bundle.
  return [{ target: `ConfigMap ${CABUNDLE_CONFIGMAP}`, bundle: found.data?.[CA_BUNDLE_KEY] ?? '' }];
}

interface WebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly {
    readonly clientConfig?: { readonly caBundle?: string; readonly url?: string };
  }[];
}

async function readConfiguration(
  client: KubeClient,
  resource: Resource,
  signal: AbortSignal,
): Promise<readonly PublishedBundle[]> {
  const ref = { name: WEBHOOK_CONFIGURATION_NAME };
  const { webhooks = [] } = (await client.get<WebhookConfiguration>(resource, ref, { signal })) ?? {};
  // What leads to a developer's machine has that machine's root, of which the authority knows nothing.
  const served = webhooks.filter(({ clientConfig }) => clientConfig?.url === undefined);
  const bundles = new Set(served.map(({ clientConfig }) => clientConfig?.caBundle));
  return [...bundles].map((base64) => ({
    target: `${resource.kind} ${WEBHOOK_CONFIGURATION_NAME}`,
    bundle: base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString(),
  }));
}

/** Of Services that are there: what a backup of another cluster brought along was never trusted here. */
async function countLeaves(client: KubeClient, signal: AbortSignal): Promise<number> {
  const labelSelector = `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`;
  const leaves = await client.listAll(secrets, { labelSelector, metadataOnly: true, signal });
  if (leaves.items.length === 0) return 0;
  const { items } = await client.listAll(services, { metadataOnly: true, signal });
  const uids = new Map(items.map((service) => [keyOf(service), service.metadata?.uid]));
  return leaves.items.filter(({ metadata }) => {
    const { [SERVING_CERT_SERVICE]: service, [SERVING_CERT_SERVICE_UID]: uid } = metadata?.annotations ?? {};
    return uid !== undefined && uids.get(`${metadata?.namespace ?? ''}/${service ?? ''}`) === uid;
  }).length;
}
