/** The CA bundle in Gatehouse's own objects: the ConfigMap `gatehouse-cabundle` and its webhook configurations. */
import { isDeepStrictEqual } from 'node:util';
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../api/group.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Log } from '../../log.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, requeueIn, startController, type Reconcile } from '../controller.ts';
import type { Listeners } from '../listeners.ts';
import { watch } from '../watch.ts';
import { readConfigurations, WEBHOOK_CONFIGURATIONS } from '../webhooks/installed-webhooks.ts';

/** State of Gatehouse belongs to one cluster: a backup must not restore it, here or elsewhere. */
export const ownStateLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/managed-by': 'gatehouse',
  [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
};

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface CaBundleContext {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly bundle: () => string | undefined;
  readonly onPublished?: () => void;
  readonly now: () => Date;
  readonly log: Log;
}

/** A watch reports changes of the ConfigMap. This recheck, in milliseconds, is a safety net. */
const RECHECK_MS = 60_000;

export function startCaBundle(
  context: Context,
  options: Pick<CaBundleContext, 'bundle' | 'onPublished'>,
  onAuthority: Listeners<[]>['add'],
  signal: AbortSignal,
) {
  const { client, config, serverClock, log } = context;
  const { namespace } = config;
  const { now } = serverClock;
  const reconcile = createCaBundleReconciler({ client, namespace, ...options, now, log });
  const name = CABUNDLE_CONFIGMAP;
  const on = [onAuthority, watch(context, { resource: configMaps, namespace, name }, signal).onChange];
  return startController(context, { name: 'ca-bundle', key: name, on, reconcile, serverNow: now }, signal);
}

export function createCaBundleReconciler(context: CaBundleContext): Reconcile {
  const { client, namespace, now, log } = context;
  return async (_key, signal) => {
    const bundle = context.bundle();
    if (bundle === undefined) return AWAIT_CHANGE;
    const ref = { namespace, name: CABUNDLE_CONFIGMAP };
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    const desired = ownConfigMap(live, ref, { ...live?.data, [CA_BUNDLE_KEY]: bundle });
    if (!isDeepStrictEqual(live, desired)) {
      await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
      log.info({}, 'published the CA bundle');
      context.onPublished?.();
    }
    return requeueIn(RECHECK_MS, now());
  };
}

export const ownConfigMap = (
  live: ConfigMap | undefined,
  ref: { readonly namespace: string; readonly name: string },
  data: NonNullable<ConfigMap['data']>,
): ConfigMap => ({
  ...(live ?? { apiVersion: 'v1', kind: 'ConfigMap' }),
  metadata: { ...live?.metadata, ...ref, labels: { ...live?.metadata?.labels, ...ownStateLabels } },
  data,
});

export interface PublishedBundle {
  readonly target: string;
  /** The current text of the field, valid or not; undefined: the field is still empty. */
  readonly bundle: string | undefined;
}

/** Reads from the API server, never from a store. */
export async function readPublishedBundles(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly PublishedBundle[]> {
  const found = await client.get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }, { signal });
  const target = `ConfigMap ${CABUNDLE_CONFIGMAP}`;
  const configurations = await Promise.all(readConfigurations(client, signal));
  const kinds = Object.values(WEBHOOK_CONFIGURATIONS).map(({ kind }) => kind);
  return [
    // An emptied ConfigMap also proves that there has been a bundle.
    ...(found === undefined ? [] : [{ target, bundle: found.data?.[CA_BUNDLE_KEY] ?? '' }]),
    ...configurations.flatMap((one, index) => bundlesIn(one, kinds[index] ?? '')),
  ];
}

function bundlesIn(live: LiveWebhookConfiguration | undefined, kind: string): readonly PublishedBundle[] {
  const { webhooks = [] } = live ?? {};
  // A webhook with a URL leads to a developer's machine and holds the root of that machine.
  const served = webhooks.filter(({ clientConfig }) => clientConfig.url === undefined);
  const bundles = new Set(served.map(({ clientConfig }) => clientConfig.caBundle));
  return [...bundles].map((base64) => ({
    target: `${kind} ${WEBHOOK_CONFIGURATION_NAME}`,
    bundle: base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString(),
  }));
}
