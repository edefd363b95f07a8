/** Leader: the authority, and the ConfigMap that publishes its bundle. */
import { createAuthorityReconciler, type AuthorityReport } from '../../../controllers/authority.ts';
import { createCaBundleReconciler, type ConfigMap } from '../../../controllers/ca-bundle.ts';
import { createListeners, type Listeners } from '../../../controllers/listeners.ts';
import type { RecordEvent } from '../../../controllers/reconcile.ts';
import type { TrustEvidence } from '../../../controllers/trust-evidence.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { configMaps, secrets } from '../../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../../pki/annotations.ts';
import type { Authority } from '../../../pki/authority.ts';
import { caBundle } from '../../../pki/bundle.ts';
import { rootOf } from '../../../pki/generation.ts';
import { generateKeyPair, randomSerial } from '../../../pki/keys.ts';
import type { CertificatePem } from '../../../pki/pem.ts';
import type { Secret } from '../../../pki/secret.ts';
import type { AuthorityState } from '../../../server/authority-metrics.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import { inLocalTime } from '../local-time.ts';
import { watch } from '../watch.ts';
import { authorityAccess } from './authority-access.ts';
import type { SecretAccess } from './secret-access.ts';

export interface RunningAuthority {
  /** Undefined until it has been read or made. */
  readonly authority: () => Authority | undefined;
  /** Undefined until there is an authority. */
  readonly bundle: () => CertificatePem | undefined;
  readonly onAuthority: Listeners<[]>['add'];
  /** The evidence may say something else now. */
  readonly reconsider: () => void;
  readonly stopped: Promise<unknown>;
}

export interface AuthorityParts {
  readonly access: SecretAccess;
  readonly evidence: TrustEvidence;
  readonly record: RecordEvent;
}

export function startAuthority(
  context: Context & { readonly client: KubeClient },
  { access, evidence, record }: AuthorityParts,
  signal: AbortSignal,
): RunningAuthority {
  const { client, config, metrics, serverClock, log } = context;
  const { namespace, ca } = config;
  let authority: Authority | undefined;
  const listeners = createListeners<[]>();
  const bundle = () => (authority === undefined ? undefined : caBundle(authority, serverClock.now()));

  const authorityController = startController(
    context,
    {
      name: 'authority',
      reconcile: inLocalTime(
        createAuthorityReconciler({
          ...authorityAccess(context),
          namespace,
          importFrom: ca.secret,
          readSecret: (name, waiting) => access.readSecret(namespace, name, waiting),
          createSecret: access.createSecret,
          replaceSecret: access.replaceSecret,
          evidence,
          generateKeyPair,
          randomSerial,
          lifetimeMs: ca.lifetimeMs,
          times: ca,
          onAuthority: (stored) => {
            authority = stored;
            listeners.tell();
          },
          report: (report) => {
            metrics.authority(toMetrics(report));
          },
          onRestored: metrics.authorityRestored,
          record,
          // The time that all replicas agree on: two leaders must not differ about what is over.
          now: serverClock.now,
          log,
        }),
        serverClock.now,
      ),
    },
    signal,
  );
  metrics.clockSkew(serverClock.skewMs);
  signal.addEventListener('abort', metrics.authorityUnknown, { once: true });
  const reconsider = () => {
    authorityController.add(AUTHORITY_SECRET);
  };
  for (const name of [AUTHORITY_SECRET, ...(ca.secret === undefined ? [] : [ca.secret])])
    watch<Secret>(
      context,
      { resource: secrets, namespace, fieldSelector: `metadata.name=${name}`, onChange: reconsider },
      signal,
    );
  reconsider();

  const bundleController = startController(
    context,
    {
      name: 'ca-bundle',
      reconcile: inLocalTime(
        createCaBundleReconciler({
          namespace,
          bundle,
          readConfigMap: (name, waiting) =>
            client.get<ConfigMap>(configMaps, { namespace, name }, { signal: waiting }),
          createConfigMap: (object, waiting) => client.create(configMaps, object, { signal: waiting }),
          replaceConfigMap: (object, waiting) => client.replace(configMaps, object, { signal: waiting }),
          onPublished: reconsider,
          now: serverClock.now,
          log,
        }),
        serverClock.now,
      ),
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
    reconsider,
    stopped: Promise.all([authorityController.stopped, bundleController.stopped]),
  };
}

const toMetrics = ({ phase, broken, authority }: AuthorityReport): AuthorityState => ({
  phase,
  broken,
  generations: (authority?.generations ?? []).map((generation) => ({
    id: generation.id,
    state: generation.state,
    notAfter: rootOf(generation).validToDate,
  })),
});
