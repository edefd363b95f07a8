/** Leader: stores of the Services that may ask for a serving cert, and of the Secrets that hold one. */
import { isDeepStrictEqual } from 'node:util';

import { pick } from '../../json/objects.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { SERVING_CERT_SELECTOR, SERVING_SECRET } from '../../pki/annotations.ts';
import { ownAnnotations, toStoredSecret, type StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { markedService } from '../../pki/serving-certs/secret.ts';
import type { Context } from '../context.ts';
import { versionsOf, watch, type Watched, type WatchOptions } from '../watch.ts';
import type { ServiceRequests } from './service-requests.ts';

export type ServingCertStores = ReturnType<typeof watchServingCerts>;

interface Listeners {
  /** The Service (`namespace/name`), its Secret or another claim to the Secret has changed. */
  readonly onService: (key: string) => void;
  /** The request of this Service was edited, or a Secret that is marked for it. */
  readonly onEdit: (key: string) => void;
  /** A serving Secret has changed, e.g. its `ca.crt`. */
  readonly onSecret: () => void;
  /** A Secret (`namespace/name`) is gone. */
  readonly onSecretGone: (secretKey: string) => void;
}

const BY_CLAIM = 'claim';
const BY_SERVICE = 'service';

export function watchServingCerts(
  context: Context,
  requests: Pick<ServiceRequests, 'claims'>,
  { onService, onEdit, onSecret, onSecretGone }: Listeners,
  signal: AbortSignal,
) {
  const serviceWatch = watchServices(context, requests, { onService, onEdit }, signal);
  const claimants = (secretKey: string) => serviceWatch.store.byIndex(BY_CLAIM, secretKey);
  const secretWatch = watch<StoredSecret>(
    context,
    {
      resource: secrets,
      ...scopeOf(context, SERVING_SECRET),
      labelSelector: SERVING_CERT_SELECTOR,
      transform: toStoredSecret,
      indexes: { [BY_SERVICE]: markedFor },
      onChange: (secretKey, change) => {
        // An edit may change the mark itself: tell the marked Services of both versions, and the claimants.
        for (const key of new Set([
          ...versionsOf(change).flatMap(markedFor),
          ...claimants(secretKey).map(keyOf),
        ])) {
          if (change.kind === 'changed') onEdit(key);
          onService(key);
        }
        if (change.kind === 'deleted') onSecretGone(secretKey);
        onSecret();
      },
    },
    signal,
  );
  return {
    synced: () => serviceWatch.hasSynced() && secretWatch.hasSynced(),
    whenSynced: (waiting: AbortSignal) =>
      Promise.all([serviceWatch.whenSynced(waiting), secretWatch.whenSynced(waiting)]),
    service: serviceWatch.store.get,
    serviceKeys: serviceWatch.store.keys,
    /** The Services that claim a Secret (`namespace/name`). */
    claimants,
    secret: secretWatch.store.get,
    secrets: secretWatch.store.list,
    /** The Secrets that are marked for a Service (`namespace/name`). */
    secretsOf: (serviceKey: string): readonly StoredSecret[] =>
      secretWatch.store.byIndex(BY_SERVICE, serviceKey),
  };
}

/** @param own the only object that matters without serving certificates for Services of users */
function scopeOf({ config }: Context, own: string): Pick<WatchOptions<KubeObject>, 'namespace' | 'name'> {
  const { namespace, without } = config;
  return without.includes('certificates') ? { namespace, name: own } : {};
}

function watchServices(
  context: Context,
  { claims }: Pick<ServiceRequests, 'claims'>,
  { onService, onEdit }: Pick<Listeners, 'onService' | 'onEdit'>,
  signal: AbortSignal,
): Watched<Service> {
  const claimedBy = (service: Service): readonly string[] => [
    ...new Set(claims(service).map(({ secretName }) => `${service.metadata?.namespace ?? ''}/${secretName}`)),
  ];
  const watched = watch<Service>(
    context,
    {
      resource: services,
      ...scopeOf(context, context.config.service),
      transform: onlyCertificateFields,
      indexes: { [BY_CLAIM]: claimedBy },
      onChange: (key, change) => {
        if (change.kind === 'changed' && !isSameRequest(change.object, change.previous)) onEdit(key);
        onService(key);
        // The Secret may have become free for another Service.
        for (const secretKey of versionsOf(change).flatMap(claimedBy))
          for (const other of watched.store.byIndex(BY_CLAIM, secretKey)) onService(keyOf(other));
      },
    },
    signal,
  );
  return watched;
}

const isSameRequest = (a: Service, b: Service): boolean =>
  isDeepStrictEqual([a.spec, a.metadata?.annotations], [b.spec, b.metadata?.annotations]);

/** The Service (`namespace/name`) for which Gatehouse marked a Secret, if any. */
export function markedFor(secret: StoredSecret): readonly string[] {
  const service = markedService(secret);
  return service === undefined ? [] : [`${secret.metadata?.namespace ?? ''}/${service}`];
}

/** Most Services ask for nothing, and decisions need only these fields. */
function onlyCertificateFields({ metadata = {}, spec = {} }: Service): Service {
  return {
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp'),
      annotations: ownAnnotations(metadata.annotations ?? {}),
    },
    spec: pick(spec, 'type', 'clusterIP', 'clusterIPs'),
  };
}
