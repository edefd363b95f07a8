/** Leader: the authority, and the ConfigMap that publishes its bundle. */
import { createAuthorityReconciler } from '../../../controllers/authority.ts';
import { createCaBundleReconciler, type ConfigMap } from '../../../controllers/ca-bundle.ts';
import { createListeners, type Listeners } from '../../../controllers/listeners.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { configMaps, secrets } from '../../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../../pki/annotations.ts';
import type { Authority } from '../../../pki/authority.ts';
import { caBundle } from '../../../pki/bundle.ts';
import { generateKeyPair, randomSerial } from '../../../pki/keys.ts';
import type { CertificatePem } from '../../../pki/pem.ts';
import type { Secret } from '../../../pki/secret.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { watch } from '../watch.ts';
import type { SecretAccess } from './secret-access.ts';

export interface RunningAuthority {
  /** Undefined until it has been read or made. */
  readonly authority: () => Authority | undefined;
  /** Undefined until there is an authority. */
  readonly bundle: () => CertificatePem | undefined;
  readonly onAuthority: Listeners<[]>['add'];
  readonly stopped: Promise<unknown>;
}

export function startAuthority(
  context: Context & { readonly client: KubeClient },
  secretAccess: SecretAccess,
  signal: AbortSignal,
): RunningAuthority {
  const { client, config, log } = context;
  const { namespace } = config;
  const now = () => new Date();
  let authority: Authority | undefined;
  const listeners = createListeners<[]>();
  const bundle = () => (authority === undefined ? undefined : caBundle(authority, now()));

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

  return {
    authority: () => authority,
    bundle,
    onAuthority: listeners.add,
    stopped: Promise.all([authorityController.stopped, bundleController.stopped]),
  };
}
