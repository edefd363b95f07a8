/** Leader: the authority, and the ConfigMap that publishes its bundle. */
import { createAuthorityReconciler, type AuthorityReport } from './authority.ts';
import { createCaBundleReconciler, type CaBundleDeps, type ConfigMap } from './ca-bundle.ts';
import { createListeners, type Listeners } from '../listeners.ts';
import { type RecordEvent, startController, inLocalTime } from '../controller.ts';
import type { TrustEvidence } from './trust-evidence.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps, secrets } from '../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { AuthorityState } from '../../server/metrics/metrics.ts';
import type { Context } from '../context.ts';
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

type LeaderContext = Context & { readonly client: KubeClient };

export function startAuthority(
  context: LeaderContext,
  parts: AuthorityParts,
  signal: AbortSignal,
): RunningAuthority {
  const { metrics, serverClock } = context;
  let authority: Authority | undefined;
  const listeners = createListeners<[]>();
  const bundle = () => (authority === undefined ? undefined : caBundle(authority, serverClock.now()));

  const secret = startSecret(
    context,
    parts,
    (stored) => {
      authority = stored;
      listeners.tell();
    },
    signal,
  );
  signal.addEventListener('abort', metrics.authorityUnknown, { once: true });
  const published = startBundle(context, { bundle, onPublished: secret.reconsider }, signal);
  listeners.add(published.publish);

  return {
    authority: () => authority,
    bundle,
    onAuthority: listeners.add,
    reconsider: secret.reconsider,
    stopped: Promise.all([secret.stopped, published.stopped]),
  };
}

/** The Secret with the authority, and that of somebody else whose CA is used. */
function startSecret(
  context: LeaderContext,
  { access, evidence, record }: AuthorityParts,
  onAuthority: (authority: Authority) => void,
  signal: AbortSignal,
): Pick<RunningAuthority, 'reconsider' | 'stopped'> {
  const { config, metrics, serverClock, log } = context;
  const { namespace, ca } = config;
  const reconcile = createAuthorityReconciler({
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
    onAuthority,
    report: (report) => {
      metrics.authority(toMetrics(report));
    },
    onRestored: metrics.authorityRestored,
    record,
    // The time that all replicas agree on: two leaders must not differ about what is over.
    now: serverClock.now,
    log,
  });
  const controller = startController(
    context,
    { name: 'authority', reconcile: inLocalTime(reconcile, serverClock.now) },
    signal,
  );
  const reconsider = () => {
    controller.add(AUTHORITY_SECRET);
  };
  for (const name of [AUTHORITY_SECRET, ...(ca.secret === undefined ? [] : [ca.secret])])
    watch<Secret>(
      context,
      { resource: secrets, namespace, fieldSelector: `metadata.name=${name}`, onChange: reconsider },
      signal,
    );
  reconsider();
  return { reconsider, stopped: controller.stopped };
}

/** The ConfigMap that publishes the bundle. */
function startBundle(
  context: LeaderContext,
  { bundle, onPublished }: Required<Pick<CaBundleDeps, 'bundle' | 'onPublished'>>,
  signal: AbortSignal,
): { readonly publish: () => void; readonly stopped: Promise<unknown> } {
  const { client, config, serverClock, log } = context;
  const { namespace } = config;
  const reconcile = createCaBundleReconciler({
    namespace,
    bundle,
    readConfigMap: (name, waiting) =>
      client.get<ConfigMap>(configMaps, { namespace, name }, { signal: waiting }),
    createConfigMap: (object, waiting) => client.create(configMaps, object, { signal: waiting }),
    replaceConfigMap: (object, waiting) => client.replace(configMaps, object, { signal: waiting }),
    onPublished,
    now: serverClock.now,
    log,
  });
  const controller = startController(
    context,
    { name: 'ca-bundle', reconcile: inLocalTime(reconcile, serverClock.now) },
    signal,
  );
  const publish = () => {
    controller.add(CABUNDLE_CONFIGMAP);
  };
  const fieldSelector = `metadata.name=${CABUNDLE_CONFIGMAP}`;
  watch<ConfigMap>(context, { resource: configMaps, namespace, fieldSelector, onChange: publish }, signal);
  return { publish, stopped: controller.stopped };
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
