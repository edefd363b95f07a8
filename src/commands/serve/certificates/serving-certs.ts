/** Leader: serving certs for the Services that ask for one. */
import { createServingCertsReconciler } from '../../../controllers/serving-certs.ts';
import { dropManagedFields, type Change } from '../../../kube/change.ts';
import { secrets, services } from '../../../kube/well-known.ts';
import { SERVING_CERT_LABEL, SERVING_CERT_SERVICE } from '../../../pki/annotations.ts';
import { generateKeyPair, randomSerial } from '../../../pki/keys.ts';
import type { Secret } from '../../../pki/secret.ts';
import type { Service } from '../../../pki/serving-cert-request.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { ownService } from '../own-service.ts';
import { watch } from '../watch.ts';
import type { Derived } from './derived.ts';

type ServingCertParts = Pick<
  Parameters<typeof createServingCertsReconciler>[0],
  'readSecret' | 'createSecret' | 'replaceSecret' | 'authority' | 'record'
>;

/** Several at a time: most of the time goes by waiting for the API server. */
const SERVING_CERT_WORKERS = 8;

export function startServingCerts(context: Context, parts: ServingCertParts, signal: AbortSignal): Derived {
  const own = ownService(context.config);
  const controller = startController(
    context,
    {
      name: 'serving-certs',
      concurrency: SERVING_CERT_WORKERS,
      reconcile: createServingCertsReconciler({
        ...parts,
        service: (key) => servicesStore.store.get(key),
        request: own.request,
        storedSecret: (key) => secretsStore.store.get(key),
        generateKeyPair,
        randomSerial,
        now: () => new Date(),
        log: context.log,
      }),
    },
    signal,
  );
  const servicesStore = watch<Service>(
    context,
    {
      resource: services,
      transform: (service) => onlyCertificateFields(dropManagedFields(service)),
      onChange: controller.add,
    },
    signal,
  );
  const secretsStore = watch<Secret>(
    context,
    {
      resource: secrets,
      labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`,
      onChange: (_key, change) => {
        for (const key of servicesOf(change)) controller.add(key);
      },
    },
    signal,
  );
  return {
    resync: () => {
      for (const key of servicesStore.store.keys()) controller.add(key);
    },
    stopped: controller.stopped,
  };
}

/** Of the many Services most ask for nothing, and none needs more than this. */
function onlyCertificateFields({ metadata, spec }: Service): Service {
  return {
    ...(metadata === undefined ? {} : { metadata }),
    ...(spec === undefined ? {} : { spec: { ...pick(spec, 'type'), ...pick(spec, 'clusterIP') } }),
  };
}

function pick<T extends object, Key extends keyof T>(object: T, key: Key): Partial<Pick<T, Key>> {
  return object[key] === undefined ? {} : ({ [key]: object[key] } as Pick<T, Key>);
}

/** The Service that a Secret says it is for, before and after: someone may have edited just that. */
function servicesOf(change: Change<Secret>): ReadonlySet<string> {
  const versions = change.kind === 'changed' ? [change.object, change.previous] : [change.object];
  return new Set(
    versions.flatMap(({ metadata }) => {
      const service = metadata?.annotations?.[SERVING_CERT_SERVICE];
      return service === undefined ? [] : [`${metadata?.namespace ?? ''}/${service}`];
    }),
  );
}
