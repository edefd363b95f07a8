/** Leader: the Services that may ask for a serving cert, and the Secrets that hold one. */
import { pick } from '../../json/objects.ts';
import type { Change } from '../../kube/watch/change.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { SERVING_CERT_LABEL } from '../../pki/annotations.ts';
import { ownAnnotations, toStoredSecret, type StoredSecret } from '../../pki/serving-certs/facts.ts';
import { markedService } from '../../pki/serving-certs/secret.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import type { Context } from '../context.ts';
import type { ServiceRequests } from './own-service.ts';
import { watch, type Watched } from '../watch.ts';

export interface ServingCertStores {
  readonly synced: () => boolean;
  readonly whenSynced: (signal: AbortSignal) => Promise<unknown>;
  readonly service: (key: string) => Service | undefined;
  readonly serviceKeys: () => readonly string[];
  /** The Services that lay claim to a Secret (`namespace/name`). */
  readonly claimants: (secretKey: string) => readonly Service[];
  readonly secret: (key: string) => StoredSecret | undefined;
  readonly secrets: () => readonly StoredSecret[];
  /** The Secrets that are marked for a Service (`namespace/name`). */
  readonly secretsOf: (serviceKey: string) => readonly StoredSecret[];
}

interface Listeners {
  /** Something has changed for this Service (`namespace/name`): itself, its Secret, or who else wants that. */
  readonly onService: (key: string) => void;
  /** Somebody edited a Secret that is marked for this Service. */
  readonly onEdit: (key: string) => void;
  /** Some serving cert is another. */
  readonly onLeaf: () => void;
  /** A Secret (`namespace/name`) is gone. */
  readonly onSecretGone: (secretKey: string) => void;
}

const BY_CLAIM = 'claim';
const BY_SERVICE = 'service';

export function watchServingCerts(
  context: Context,
  { claimOf }: Pick<ServiceRequests, 'claimOf'>,
  { onService, onEdit, onLeaf, onSecretGone }: Listeners,
  signal: AbortSignal,
): ServingCertStores {
  const serviceWatch = watchServices(context, claimOf, onService, signal);
  const claimants = (secretKey: string) => serviceWatch.store.byIndex(BY_CLAIM, secretKey);
  const secretWatch = watchSecrets(
    context,
    (secretKey, change) => {
      // The Service that it says it is for, before and after, and those that want it: someone may have edited just that.
      const wanting = claimants(secretKey).map(keyOf);
      for (const key of new Set([...versionsOf(change).flatMap(markedFor), ...wanting])) {
        if (change.kind === 'changed') onEdit(key);
        onService(key);
      }
      if (change.kind === 'deleted') onSecretGone(secretKey);
      onLeaf();
    },
    signal,
  );
  return {
    synced: () => serviceWatch.hasSynced() && secretWatch.hasSynced(),
    whenSynced: (waiting) => Promise.all([serviceWatch.whenSynced(waiting), secretWatch.whenSynced(waiting)]),
    service: serviceWatch.store.get,
    serviceKeys: serviceWatch.store.keys,
    claimants,
    secret: secretWatch.store.get,
    secrets: secretWatch.store.list,
    secretsOf: (serviceKey) => secretWatch.store.byIndex(BY_SERVICE, serviceKey),
  };
}

function watchServices(
  context: Context,
  claimOf: ServiceRequests['claimOf'],
  onService: Listeners['onService'],
  signal: AbortSignal,
): Watched<Service> {
  const claimedBy = (service: Service): readonly string[] => {
    const claim = claimOf(service);
    return claim === undefined ? [] : [`${service.metadata?.namespace ?? ''}/${claim.secretName}`];
  };
  const watched = watch<Service>(
    context,
    {
      resource: services,
      transform: onlyCertificateFields,
      indexes: { [BY_CLAIM]: claimedBy },
      onChange: (key, change) => {
        onService(key);
        // Whoever waits for a Secret learns that it may have become free.
        for (const secretKey of versionsOf(change).flatMap(claimedBy))
          for (const other of watched.store.byIndex(BY_CLAIM, secretKey)) onService(keyOf(other));
      },
    },
    signal,
  );
  return watched;
}

function watchSecrets(
  context: Context,
  onChange: (key: string, change: Change<StoredSecret>) => void,
  signal: AbortSignal,
): Watched<StoredSecret> {
  return watch<StoredSecret>(
    context,
    {
      resource: secrets,
      labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`,
      transform: toStoredSecret,
      indexes: { [BY_SERVICE]: markedFor },
      onChange,
    },
    signal,
  );
}

function markedFor(secret: StoredSecret): readonly string[] {
  const service = markedService(secret);
  return service === undefined ? [] : [`${secret.metadata?.namespace ?? ''}/${service}`];
}

const keyOf = ({ metadata }: Service): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

const versionsOf = <T>(change: Change<T>): readonly T[] =>
  change.kind === 'changed' ? [change.object, change.previous] : [change.object];

/** Of the many Services most ask for nothing, and none needs more than this. */
function onlyCertificateFields({ metadata = {}, spec = {} }: Service): Service {
  return {
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp'),
      annotations: ownAnnotations(metadata.annotations ?? {}),
    },
    spec: pick(spec, 'type', 'clusterIP'),
  };
}
