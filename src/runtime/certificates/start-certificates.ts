import { AUTHORITY_SECRET } from '../../pki/annotations.ts';
import { type Authority, caBundle } from '../../pki/authority/authority.ts';
import { type LeaderContext, startController } from '../controller.ts';
import { startInjection } from '../injection/start-injection.ts';
import { atMostEvery, systemClock } from '../../kube/clock.ts';
import { createListeners } from '../listeners.ts';
import { startAuthority } from './authority.ts';
import type { TrustEvidence } from './rotation-step.ts';
import { startCaBundle } from './ca-bundle.ts';
import {
  createCertInventory,
  createServiceRequests,
  markedFor,
  type ServiceRequests,
  type ServingCertStores,
  watchServingCerts,
} from './serving-cert-stores.ts';
import { keyOf } from '../../json/kube-object.ts';
import { DEFAULT_SERVING_CERT_LIFETIME } from '../../pki/durations.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { canonicalAddress, LEAF_PURPOSES } from '../../pki/x509/certificate-fields.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { followClock, skewProblem } from '../clock-skew.ts';
import { startEndpointProbes } from '../endpoints/prober.ts';
import { createContendedSecrets, serviceKeyOf, taskKeyOf } from './serving-cert-task.ts';
import { createIssuePacer } from './issue-pacer.ts';
import { createServingCertsReconciler } from './serving-certs.ts';

export type Certificates = ReturnType<typeof startCertificates>;

/** During a rotation, thousands of targets and certificates change. Each reconcile reads the authority and the bundles. */
const EVIDENCE_MS = 1_000;

export function startCertificates(context: LeaderContext, signal: AbortSignal) {
  const { serverClock } = context;
  let current: Authority | undefined;
  const authority = () => current;
  const bundle = () => (current === undefined ? undefined : caBundle(current, serverClock.now()));
  const listeners = createListeners<[]>();
  const reconcileRotation = () => rotation.add(AUTHORITY_SECRET);
  const soon = atMostEvery(EVIDENCE_MS, reconcileRotation, systemClock, signal);
  const onEvidence = () => {
    // Without a rotation in progress, a change of the evidence starts none.
    if (current === undefined || current.generations.length > 1) soon();
  };
  const published = startCaBundle(context, { bundle, onPublished: onEvidence }, listeners.add, signal);
  const servingCerts = startServingCerts(context, authority, { extendTrust: soon, onEvidence }, signal);
  listeners.add(servingCerts.resync);
  const injection = startInjection(context, authority, bundle, { onEvidence, onUnreadable: soon }, signal);
  listeners.add(injection.resync);
  const evidence = {
    /** Waits for serving Secrets as long as for other targets of tenants. */
    targetsWithout: (id: string) => {
      const targets = injection.targetsWithout(id);
      const secrets = servingCerts.inventory.secretsWithout(id);
      return targets && secrets && { ...targets, delaying: [...targets.delaying, ...secrets] };
    },
    unreadable: injection.unreadable,
    ...servingCerts.demand,
  };
  const onAuthority = (stored: Authority) => {
    current = stored;
    listeners.tell();
  };
  const rotation = startAuthority(context, evidence, onAuthority, signal);
  return {
    bundle,
    onAuthority: listeners.add,
    stopped: Promise.all([rotation, published, servingCerts, injection].map(({ stopped }) => stopped)),
  };
}

const WORKERS = 8;

/** The rate when all certs are due together: 10,000 take 8 minutes, and the API server has capacity left. */
const REISSUE = { perSecond: 20, burst: 50 } as const;

/** `extendTrust`: the authority must record a later trust first. `onEvidence`: a serving Secret has changed. */
function startServingCerts(
  context: LeaderContext,
  authority: () => Authority | undefined,
  { extendTrust, onEvidence }: Record<'extendTrust' | 'onEvidence', () => void>,
  signal: AbortSignal,
) {
  const { config, serverClock, metrics, log } = context;
  const { now } = serverClock;
  const requests = createServiceRequests(config);
  const add = (key: string): void => controller.add(key);
  const pacer = createIssuePacer({
    ...REISSUE,
    ...systemClock,
    release: (task) => add(serviceKeyOf(task)),
  });
  const stores = watchServingCerts(
    context,
    requests,
    {
      onService: (key) => {
        add(key);
        onServingCert(key);
      },
      onEdit: (key) => {
        for (const purpose of LEAF_PURPOSES) pacer.hurry(taskKeyOf(key, purpose));
      },
      onSecret: onEvidence,
    },
    signal,
  );
  const onServingCert = startEndpointProbes(context, stores, requests, signal);
  const contended = createContendedSecrets();
  const inventory = createCertInventory(stores, requests, authority);
  const reconcile = createServingCertsReconciler({
    ...context,
    stores,
    requests,
    authority,
    extendTrust,
    inventory,
    contended,
    pacer,
    generateKeyPair,
    randomSerial,
    observe: metrics.issue,
    onRemoval: config.servingCerts.onRemoval,
    openshift: config.compat.includes('openshift'),
  });
  const options = { name: 'serving-certs', concurrency: WORKERS, reconcile, serverNow: now };
  const controller = startController(context, options, signal);
  const resync = (): void => {
    for (const key of keysByUrgency(stores, requests)) add(key);
  };
  void stores.whenSynced(signal).then(resync, () => undefined); // has stopped leading
  const onJump = (jumpMs: number): void => {
    const problem = skewProblem(serverClock.skewMs());
    log.warn({ jumpMs: Math.round(jumpMs), problem }, 'the clock jumped');
    resync();
  };
  followClock(now, onJump, signal);
  const figures = { ...inventory, waiting: pacer.waiting, contended: contended.count, now };
  metrics.scrape({ servingCerts: figures }, signal);
  signal.addEventListener('abort', pacer.stop);
  return { resync, demand: demandOf(stores, requests), inventory, stopped: controller.stopped };
}

/** Every cluster has this Service. Its cluster IPs are in the ranges of all others. */
const API_SERVER_SERVICE = 'default/kubernetes';

function demandOf(
  { synced, service, serviceKeys }: Pick<ServingCertStores, 'synced' | 'service' | 'serviceKeys'>,
  { lifetimeMs, claimOf }: Pick<ServiceRequests, 'lifetimeMs' | 'claimOf'>,
): Pick<TrustEvidence, 'longestLifeMs' | 'clusterIPs' | 'wantsClientCerts'> {
  const all = (): readonly Service[] => [...serviceKeys()].flatMap((key) => service(key) ?? []);
  return {
    longestLifeMs: () =>
      synced()
        ? all()
            .map(lifetimeMs)
            .reduce((a, b) => Math.max(a, b), DEFAULT_SERVING_CERT_LIFETIME)
        : undefined,
    clusterIPs: () => {
      const { clusterIP = '', clusterIPs = [clusterIP] } = service(API_SERVER_SERVICE)?.spec ?? {};
      return clusterIPs.map(canonicalAddress).filter((address) => address !== undefined);
    },
    wantsClientCerts: () => all().some((one) => claimOf(one, 'client') !== undefined),
  };
}

/** Gatehouse's own Service first: the API server needs its cert to call Gatehouse. Then by the end of the cert. */
function keysByUrgency(
  { serviceKeys, service, claimants, secrets }: ServingCertStores,
  { isOwn }: Pick<ServiceRequests, 'isOwn'>,
): readonly string[] {
  const ends = new Map<string, number>();
  for (const secret of secrets()) {
    const { summary } = secret;
    if (summary?.kind !== 'usable') continue;
    for (const claimant of claimants(keyOf(secret))) ends.set(keyOf(claimant), summary.notAfter.getTime());
  }
  const rank = (key: string): number => {
    const one = service(key);
    return one !== undefined && isOwn(one) ? Number.MIN_SAFE_INTEGER : (ends.get(key) ?? 0);
  };
  // A Service that was deleted while no replica led may have left its cert between data of other clients.
  const marked = secrets().flatMap(markedFor);
  return [...new Set([...serviceKeys(), ...marked])].sort((a, b) => rank(a) - rank(b));
}
