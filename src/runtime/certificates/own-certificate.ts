/** Every replica: loads Gatehouse's own serving certificate from its Secret into the listener. A volume is slower. */
import type { X509Certificate } from 'node:crypto';
import type { KubeClient } from '../../kube/client.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import { SERVING_SECRET, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import type { Log } from '../../log.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { isTrustedBy } from '../../pki/x509/chains.ts';
import { parsePrivateKeyPem, scanCertificates, toCertificatePem } from '../../pki/x509/pem.ts';
import { PortUnavailable, type Listener } from '../../server/listener/listener.ts';
import type { ServingCertificate } from '../../server/webhook-server.ts';
import type { Context } from '../context.ts';
import type { Watched } from '../watch.ts';
import { readPublishedBundles } from './ca-bundle.ts';
import { textOf } from '../../pki/secret-data.ts';

export function presentServingSecret(
  context: Context,
  { store, onChange }: Pick<Watched<Secret>, 'store' | 'onChange'>,
  listener: Pick<Listener, 'present'>,
  signal: AbortSignal,
): void {
  const log = context.log.child({ secret: SERVING_SECRET });
  const offer = createCertificateReloader({ ...context, log }, listener);
  onChange((key) => {
    const certificate = certificateIn(store.get(key));
    // Without a certificate in the Secret the listener keeps its own until the leader has repaired the Secret.
    if (certificate !== undefined) void offer(certificate, signal);
  }, signal);
}

/** A damaged Secret must not prevent a start while no leader repairs it: what can be read is enough. */
export function certificateIn(secret: Pick<Secret, 'data'> | undefined): ServingCertificate | undefined {
  const chain = textOf(secret?.data, TLS_CERT_KEY) ?? '';
  const key = textOf(secret?.data, TLS_PRIVATE_KEY_KEY) ?? '';
  if (chain === '' || key === '') return undefined;
  const readable: X509Certificate[] = [];
  for (const found of scanCertificates(chain)) {
    if (found instanceof Error) break;
    readable.push(found);
  }
  try {
    return { chain: toCertificatePem(readable), key: parsePrivateKeyPem(key) };
  } catch {
    return { chain, key }; // the listener reports the problem
  }
}

interface ReloaderContext {
  readonly client: Pick<KubeClient, 'get'>;
  readonly config: Pick<Context['config'], 'namespace'>;
  readonly metrics: Pick<Context['metrics'], 'certificateRead' | 'certificateReadFailed'>;
  readonly serverClock: Pick<Context['serverClock'], 'now'>;
  readonly log: Pick<Log, 'warn' | 'error'>;
}

/** In milliseconds. The leader publishes bundles quickly, and repairs restored bundles equally quickly. */
const RECHECK_MS = 500;
/** In milliseconds. A port is free again when the process that had it has ended. */
const LISTEN_AGAIN_MS = 2_000;

/** Presents a new certificate when at least as many published bundles trust it as trust the current one. Never rejects. */
export function createCertificateReloader(
  { client, config, metrics, serverClock, log }: ReloaderContext,
  listener: Pick<Listener, 'present'>,
  clock = systemClock,
) {
  let presented: ServingCertificate | undefined;
  let offered: ServingCertificate | undefined;

  /** Clients may have stopped trusting the CA that signed a certificate from a backup. */
  const isLessTrusted = async (certificate: ServingCertificate, signal: AbortSignal): Promise<boolean> => {
    if (presented === undefined || presented.chain === certificate.chain) return false;
    const current = presented.chain;
    // Clients, above all the API server, currently verify this replica with these bundles.
    const published = await readPublishedBundles(client, config.namespace, signal);
    const bundles = published.flatMap(({ bundle }) => bundle ?? []);
    const now = serverClock.now();
    const trustedBy = (chain: string) => bundles.filter((bundle) => isTrustedBy(chain, bundle, now)).length;
    return trustedBy(certificate.chain) < trustedBy(current);
  };

  const waitForTrust = async (certificate: ServingCertificate, signal: AbortSignal): Promise<void> => {
    for (let attempt = 0; offered === certificate; attempt++) {
      try {
        if (!(await isLessTrusted(certificate, signal))) return;
        if (attempt === 0)
          log.warn(
            {},
            'the certificate in use stays: fewer published CA bundles trust the one in the secret',
          );
      } catch (err) {
        signal.throwIfAborted();
        log.warn({ err }, 'could not read the published CA bundles');
      }
      await sleep(clock, RECHECK_MS, signal);
    }
  };

  const present = async (certificate: ServingCertificate, signal: AbortSignal): Promise<void> => {
    await waitForTrust(certificate, signal);
    if (offered !== certificate) return;
    metrics.certificateRead();
    try {
      await listener.present(certificate);
      presented = certificate;
    } catch (err) {
      if (!(err instanceof PortUnavailable)) throw err;
      log.error({ err }, 'cannot open the port of the webhooks');
      await sleep(clock, LISTEN_AGAIN_MS, signal);
      await present(certificate, signal);
    }
  };

  return async (certificate: ServingCertificate, signal: AbortSignal): Promise<void> => {
    offered = certificate;
    try {
      await present(certificate, signal);
    } catch (err) {
      if (signal.aborted) return;
      metrics.certificateReadFailed();
      log.error({ err }, 'could not present the serving certificate');
    }
  };
}
