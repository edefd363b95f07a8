/** Leader: starts the controllers of the authority, the CA bundle, serving certs and injection. */
import type { KubeClient } from '../../kube/client.ts';
import { configMaps, secrets } from '../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { AuthorityState } from '../../server/metrics/metrics.ts';
import type { Context } from '../context.ts';
import { inLocalTime, type RecordEvent, type RunningController, startController } from '../controller.ts';
import { startInjection } from '../injection/start-injection.ts';
import { createListeners, type Listeners } from '../listeners.ts';
import { watch } from '../watch.ts';
import { createAuthorityReconciler, type AuthorityReport } from './authority.ts';
import { createCaBundleReconciler, type CaBundleContext, type ConfigMap } from './ca-bundle.ts';
import type { TrustEvidence } from './rotation.ts';
import { startServingCerts } from './start-serving-certs.ts';

export interface Certificates {
  /** Undefined until there is an authority. */
  readonly bundle: () => CertificatePem | undefined;
  readonly onAuthority: Listeners<[]>['add'];
  readonly stopped: Promise<unknown>;
}

type LeaderContext = Context & { readonly client: KubeClient };

export function startCertificates(
  context: LeaderContext,
  record: RecordEvent,
  signal: AbortSignal,
): Certificates {
  const { serverClock } = context;
  let current: Authority | undefined;
  // The controllers that know the evidence start later. Until they have synced, nothing is known.
  let evidence: TrustEvidence = { targetsWithout: () => undefined, liveCertsOf: () => undefined };
  const listeners = createListeners<[]>();
  const authority = () => current;
  const bundle = () => (current === undefined ? undefined : caBundle(current, serverClock.now()));
  const rotation = startAuthority(
    context,
    record,
    {
      targetsWithout: (generation) => evidence.targetsWithout(generation),
      liveCertsOf: (generation) => evidence.liveCertsOf(generation),
    },
    (stored) => {
      current = stored;
      listeners.tell();
    },
    signal,
  );
  const onEvidence = () => {
    rotation.add(AUTHORITY_SECRET);
  };
  const published = startBundle(context, { bundle, onPublished: onEvidence }, signal);
  listeners.add(() => {
    published.add(CABUNDLE_CONFIGMAP);
  });
  const parts = { authority, bundle, record, onEvidence };
  const servingCerts = startServingCerts(context, parts, signal);
  const injection = startInjection(context, parts, signal);
  evidence = { targetsWithout: injection.targetsWithout, liveCertsOf: servingCerts.liveCertsOf };
  listeners.add(servingCerts.resync);
  listeners.add(injection.resync);
  return {
    bundle,
    onAuthority: listeners.add,
    stopped: Promise.all([rotation, published, servingCerts, injection].map(({ stopped }) => stopped)),
  };
}

/** Watches the Secret with the authority, and the Secret with an imported CA. */
function startAuthority(
  context: LeaderContext,
  record: RecordEvent,
  evidence: TrustEvidence,
  onAuthority: (authority: Authority) => void,
  signal: AbortSignal,
): RunningController {
  const { config, metrics, serverClock } = context;
  const { namespace, ca } = config;
  const reconcile = createAuthorityReconciler({
    ...context,
    evidence,
    generateKeyPair,
    randomSerial,
    onAuthority,
    report: (report) => {
      metrics.authority(toMetrics(report));
    },
    onRestored: metrics.authorityRestored,
    record,
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
  signal.addEventListener('abort', metrics.authorityUnknown, { once: true });
  return controller;
}

/** Watches the ConfigMap that publishes the bundle. */
function startBundle(
  context: LeaderContext,
  options: Required<Pick<CaBundleContext, 'bundle' | 'onPublished'>>,
  signal: AbortSignal,
): RunningController {
  const { client, config, serverClock, log } = context;
  const { namespace } = config;
  const { now } = serverClock;
  const reconcile = createCaBundleReconciler({ client, namespace, ...options, now, log });
  const controller = startController(
    context,
    { name: 'ca-bundle', reconcile: inLocalTime(reconcile, now) },
    signal,
  );
  const fieldSelector = `metadata.name=${CABUNDLE_CONFIGMAP}`;
  const onChange = () => {
    controller.add(CABUNDLE_CONFIGMAP);
  };
  watch<ConfigMap>(context, { resource: configMaps, namespace, fieldSelector, onChange }, signal);
  return controller;
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
