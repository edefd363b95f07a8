/** Leader: the authority and all that is derived from it. */
import { createAuthorityReconciler } from '../../controllers/authority.ts';
import { createCaBundleReconciler, type ConfigMap } from '../../controllers/ca-bundle.ts';
import { createInjector } from '../../controllers/injector.ts';
import { createListeners, type Listeners } from '../../controllers/listeners.ts';
import type { RecordEvent } from '../../controllers/reconcile.ts';
import { createServingCertsReconciler } from '../../controllers/serving-certs.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject, Resource } from '../../kube/object.ts';
import { dropManagedFields, type Change } from '../../kube/change.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import {
  AUTHORITY_SECRET,
  CABUNDLE_CONFIGMAP,
  SERVING_CERT_LABEL,
  SERVING_CERT_SERVICE,
} from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority.ts';
import { caBundle } from '../../pki/bundle.ts';
import type { WebhookConfiguration } from '../../pki/injection.ts';
import { generateKeyPair, randomSerial } from '../../pki/keys.ts';
import type { CertificatePem } from '../../pki/pem.ts';
import type { Secret } from '../../pki/secret.ts';
import type { Service } from '../../pki/serving-cert-request.ts';
import type { Context } from './context.ts';
import { startController } from './controller.ts';
import { ownService } from './own-service.ts';
import { watch } from './watch.ts';

export interface Certificates {
  /** Undefined until there is an authority. */
  readonly bundle: () => CertificatePem | undefined;
  readonly onAuthority: Listeners<[]>['add'];
  readonly stopped: Promise<unknown>;
}

/** The field manager that owns caBundle fields, and only those. */
const INJECTION_MANAGER = 'gatehouse-cabundle';

export function startCertificates(
  context: Context & { readonly client: KubeClient },
  record: RecordEvent,
  signal: AbortSignal,
): Certificates {
  const { client, config, log } = context;
  const { namespace } = config;
  const now = () => new Date();
  let authority: Authority | undefined;
  const listeners = createListeners<[]>();
  const bundle = () => (authority === undefined ? undefined : caBundle(authority, now()));
  const secretAccess = {
    createSecret: (secret: Secret, waiting: AbortSignal) =>
      client.create(secrets, secret, { signal: waiting }),
    replaceSecret: (secret: Secret, waiting: AbortSignal) =>
      client.replace(secrets, secret, { signal: waiting }),
    readSecret: (inNamespace: string, name: string, waiting: AbortSignal) =>
      client.get<Secret>(secrets, { namespace: inNamespace, name }, { signal: waiting }),
  };

  const authorityController = startController(
    context,
    {
      name: 'authority',
      reconcile: createAuthorityReconciler({
        namespace,
        readSecret: (name, waiting) => secretAccess.readSecret(namespace, name, waiting),
        createSecret: secretAccess.createSecret,
        generateKeyPair,
        randomSerial,
        onAuthority: (stored) => {
          authority = stored;
          listeners.tell();
        },
        now,
        log,
      }),
    },
    signal,
  );
  const watchAuthority = { resource: secrets, namespace, fieldSelector: `metadata.name=${AUTHORITY_SECRET}` };
  watch<Secret>(
    context,
    {
      ...watchAuthority,
      onChange: () => {
        authorityController.add(AUTHORITY_SECRET);
      },
    },
    signal,
  );
  authorityController.add(AUTHORITY_SECRET);

  const bundleController = startController(
    context,
    {
      name: 'ca-bundle',
      reconcile: createCaBundleReconciler({
        namespace,
        bundle,
        readConfigMap: (name, waiting) =>
          client.get<ConfigMap>(configMaps, { namespace, name }, { signal: waiting }),
        createConfigMap: (object, waiting) => client.create(configMaps, object, { signal: waiting }),
        replaceConfigMap: (object, waiting) => client.replace(configMaps, object, { signal: waiting }),
        now,
        log,
      }),
    },
    signal,
  );
  listeners.add(() => {
    bundleController.add(CABUNDLE_CONFIGMAP);
  });

  const servingCerts = startServingCerts(
    context,
    { ...secretAccess, authority: () => authority, record },
    signal,
  );
  listeners.add(servingCerts.resync);
  const injectors = [mutatingWebhookConfigurations, validatingWebhookConfigurations].map((resource) =>
    startInjector(context, resource, bundle, signal),
  );
  for (const { resync } of injectors) listeners.add(resync);

  return {
    bundle,
    onAuthority: listeners.add,
    stopped: Promise.all(
      [authorityController, bundleController, servingCerts, ...injectors].map(({ stopped }) => stopped),
    ),
  };
}

type ServingCertParts = Pick<
  Parameters<typeof createServingCertsReconciler>[0],
  'readSecret' | 'createSecret' | 'replaceSecret' | 'authority' | 'record'
>;

/** Several at a time: most of the time goes by waiting for the API server. */
const SERVING_CERT_WORKERS = 8;

function startServingCerts(context: Context, parts: ServingCertParts, signal: AbortSignal) {
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

function startInjector(
  context: Context,
  resource: Resource,
  bundle: () => CertificatePem | undefined,
  signal: AbortSignal,
) {
  const controller = startController(
    context,
    {
      name: `injector-${resource.resource}`,
      reconcile: createInjector({
        configuration: (name) => watched.store.get(name),
        bundle,
        apply: async ({ name, resourceVersion }, webhooks, waiting) => {
          const object: KubeObject & { readonly webhooks: typeof webhooks } = {
            metadata: { name, ...(resourceVersion === undefined ? {} : { resourceVersion }) },
            webhooks,
          };
          await context.client.apply(resource, object, {
            fieldManager: INJECTION_MANAGER,
            force: true,
            signal: waiting,
          });
        },
        log: context.log,
      }),
    },
    signal,
  );
  const watched = watch<WebhookConfiguration>(context, { resource, onChange: controller.add }, signal);
  return {
    resync: () => {
      for (const key of watched.store.keys()) controller.add(key);
    },
    stopped: controller.stopped,
  };
}
