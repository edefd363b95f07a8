/** The CA bundle in Gatehouse's own objects: the ConfigMap `gatehouse-cabundle` and its webhook configurations. */
import { isDeepStrictEqual } from 'node:util';
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../api/group.ts';
import { pick } from '../../json/json.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { withKind } from '../../kube/object.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import { readableCertificates } from '../../pki/x509/pem.ts';
import type { Log } from '../../log.ts';
import {
  AWAIT_CHANGE,
  createReminders,
  type LeaderContext,
  type Reconcile,
  type RecordEvent,
  regarding,
  requeueIn,
  startController,
} from '../controller.ts';
import type { Listeners } from '../listeners.ts';
import { watch } from '../watch.ts';
import { createRefusedWrites, refusable, WriteRefused } from '../write-refused.ts';
import { readConfigurations, WEBHOOK_CONFIGURATIONS } from '../webhooks/installed-webhooks.ts';

/** State of Gatehouse belongs to one cluster: a backup must not restore it, here or elsewhere. */
export const ownStateLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/managed-by': 'gatehouse',
  [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
};

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

export interface CaBundleContext {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly bundle: () => string | undefined;
  readonly onPublished?: () => void;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

/** A watch reports changes of the ConfigMap. This recheck, in milliseconds, is a safety net. */
const RECHECK_MS = 60_000;

export function startCaBundle(
  context: LeaderContext,
  options: Pick<CaBundleContext, 'bundle' | 'onPublished'>,
  onAuthority: Listeners<[]>['add'],
  signal: AbortSignal,
) {
  const { client, config, serverClock, record, log } = context;
  const { namespace } = config;
  const { now } = serverClock;
  const reconcile = createCaBundleReconciler({ client, namespace, ...options, record, now, log });
  const name = CABUNDLE_CONFIGMAP;
  const on = [onAuthority, watch(context, { resource: configMaps, namespace, name }, signal).onChange];
  return startController(context, { name: 'ca-bundle', key: name, on, reconcile, serverNow: now }, signal);
}

export function createCaBundleReconciler(context: CaBundleContext): Reconcile {
  const { client, namespace, record, now, log } = context;
  const ref = { namespace, name: CABUNDLE_CONFIGMAP };
  const refusedWrites = createRefusedWrites(now);
  const reminders = createReminders();
  const warn = (live: ConfigMap | undefined, reason: string, message: string) => {
    const regarded = regarding(withKind(configMaps, { metadata: { ...live?.metadata, ...ref } }));
    record({ regarding: regarded, type: 'Warning', reason, message });
    log.warn({ reason }, message);
  };
  return async (key, signal) => {
    const bundle = context.bundle();
    if (bundle === undefined) return AWAIT_CHANGE;
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    const desired = ownConfigMap(live, ref, { ...live?.data, [CA_BUNDLE_KEY]: bundle });
    if (isDeepStrictEqual(live, desired)) return requeueIn(RECHECK_MS, now());
    const written = await refusedWrites.attempt(key, () =>
      refusable(() => (live === undefined ? client.create : client.replace)(configMaps, desired, { signal })),
    );
    if (written instanceof WriteRefused) {
      const cause = live?.immutable === true ? IMMUTABLE : written.message;
      if (reminders.isDue(key, cause, now()))
        warn(live, 'WriteRefused', `ConfigMap ${CABUNDLE_CONFIGMAP} does not get the CA bundle: ${cause}`);
      return requeueIn(RECHECK_MS, now());
    }
    reminders.clear(key);
    log.info({}, 'published the CA bundle');
    if (isDamaged(live?.data?.[CA_BUNDLE_KEY])) warn(live, 'BundleRepaired', BUNDLE_REPAIRED);
    context.onPublished?.();
    return requeueIn(RECHECK_MS, now());
  };
}

const IMMUTABLE = 'it is immutable. Delete it, and Gatehouse creates it again';

export const BUNDLE_REPAIRED =
  'some clients cannot read the text of the CA bundle: Gatehouse wrote it again. ' +
  'Find the client that changed it in metadata.managedFields';

export const isDamaged = (text: string | undefined): boolean =>
  text !== undefined && text.trim() !== '' && readableCertificates(text) === undefined;

export const ownConfigMap = (
  live: ConfigMap | undefined,
  ref: { readonly namespace: string; readonly name: string },
  data: NonNullable<ConfigMap['data']>,
): ConfigMap => ({
  // Without binaryData: the API server refuses a key that stands in both.
  ...pick(live ?? { apiVersion: 'v1', kind: 'ConfigMap' }, 'apiVersion', 'kind', 'immutable'),
  metadata: { ...live?.metadata, ...ref, labels: { ...live?.metadata?.labels, ...ownStateLabels } },
  data,
});

export interface PublishedBundle {
  readonly target: string;
  /** Why Gatehouse cannot write it, for users. */
  readonly cause?: string | undefined;
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
  const target = `ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP}`;
  const cause = found?.immutable === true ? IMMUTABLE : undefined;
  const configurations = await Promise.all(readConfigurations(client, signal));
  const kinds = Object.values(WEBHOOK_CONFIGURATIONS).map(({ kind }) => kind);
  return [
    // An emptied ConfigMap also proves that there has been a bundle.
    ...(found === undefined ? [] : [{ target, cause, bundle: found.data?.[CA_BUNDLE_KEY] ?? '' }]),
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
