/** On the leader: starts the controllers of the authority, the CA bundle, serving certs and injection. */
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import type { LeaderContext } from '../controller.ts';
import { startInjection } from '../injection/start-injection.ts';
import { atMostEvery } from '../at-most-every.ts';
import { createListeners } from '../listeners.ts';
import { startAuthority } from './authority.ts';
import { startCaBundle } from './ca-bundle.ts';
import { systemClock } from '../../kube/clock.ts';
import { withSecrets } from './cert-inventory.ts';
import { startServingCerts } from './start-serving-certs.ts';

export type Certificates = ReturnType<typeof startCertificates>;

/** During a rotation, thousands of targets and certificates change. Each reconcile reads the authority and the bundles. */
const EVIDENCE_MS = 1_000;

export function startCertificates(context: LeaderContext, signal: AbortSignal) {
  const { serverClock } = context;
  let current: Authority | undefined;
  const authority = () => current;
  const bundle = () => (current === undefined ? undefined : caBundle(current, serverClock.now()));
  const listeners = createListeners<[]>();
  /** What a rotation waits for may have changed. */
  const reconcileRotation = () => rotation.add(AUTHORITY_SECRET);
  const soon = atMostEvery(EVIDENCE_MS, reconcileRotation, systemClock, signal);
  const onEvidence = () => {
    // Without a rotation in progress, a change of the evidence starts none.
    if (current === undefined || current.generations.length > 1) soon();
  };
  const published = startCaBundle(context, { bundle, onPublished: onEvidence }, signal);
  listeners.add(() => published.add(CABUNDLE_CONFIGMAP));
  const servingCerts = startServingCerts(context, authority, { extendTrust: soon, onEvidence }, signal);
  listeners.add(servingCerts.resync);
  const injection = startInjection(context, authority, bundle, { onEvidence, onUnreadable: soon }, signal);
  listeners.add(injection.resync);
  const evidence = {
    targetsWithout: (id: string) =>
      withSecrets(injection.targetsWithout(id), servingCerts.inventory.secretsWithout(id)),
    unreadable: injection.unreadable,
    ...servingCerts.demand,
  };
  const onAuthority = (stored: Authority) => {
    current = stored;
    listeners.tell();
  };
  const rotation = startAuthority(context, evidence, onAuthority, signal);
  return {
    /** Undefined until there is an authority. */
    bundle,
    onAuthority: listeners.add,
    stopped: Promise.all([rotation, published, servingCerts, injection].map(({ stopped }) => stopped)),
  };
}
