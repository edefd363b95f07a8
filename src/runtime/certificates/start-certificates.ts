/** On the leader: starts the controllers of the authority, the CA bundle, serving certs and injection. */
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import type { LeaderContext } from '../controller.ts';
import { startInjection } from '../injection/start-injection.ts';
import { createListeners } from '../listeners.ts';
import { startAuthority } from './authority.ts';
import { startCaBundle } from './ca-bundle.ts';
import { startServingCerts } from './start-serving-certs.ts';

export type Certificates = ReturnType<typeof startCertificates>;

export function startCertificates(context: LeaderContext, signal: AbortSignal) {
  const { serverClock } = context;
  let current: Authority | undefined;
  const authority = () => current;
  const bundle = () => (current === undefined ? undefined : caBundle(current, serverClock.now()));
  const listeners = createListeners<[]>();
  /** What a rotation waits for may have changed. */
  const onEvidence = () => rotation.add(AUTHORITY_SECRET);
  const published = startCaBundle(context, { bundle, onPublished: onEvidence }, signal);
  listeners.add(() => published.add(CABUNDLE_CONFIGMAP));
  const servingCerts = startServingCerts(context, authority, onEvidence, signal);
  listeners.add(servingCerts.resync);
  const injection = startInjection(context, authority, bundle, onEvidence, signal);
  listeners.add(injection.resync);
  const evidence = { targetsWithout: injection.targetsWithout, liveCertsOf: servingCerts.liveCertsOf };
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
