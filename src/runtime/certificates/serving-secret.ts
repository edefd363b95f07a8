/** Every replica: the Secret with Gatehouse's own serving certificate → the listener. No volume, so no delay. */
import { setTimeout as sleep } from 'node:timers/promises';

import { secrets } from '../../kube/well-known.ts';
import { SERVING_SECRET, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Listener } from '../../server/listener/listener.ts';
import type { ServingCertificate } from '../../server/listener/serving-certificate.ts';
import { authorityAccess } from './authority-access.ts';
import type { Context } from '../context.ts';
import { createPresenter } from './presenter.ts';
import { watch } from '../watch.ts';

export function followServingSecret(
  context: Context,
  listener: Pick<Listener, 'present'>,
  signal: AbortSignal,
): void {
  const { config, serverClock, metrics, log } = context;
  const { readPublished } = authorityAccess(context);
  const presenter = createPresenter({
    present: async (certificate) => {
      metrics.certificateRead();
      try {
        await listener.present(certificate);
      } catch (error) {
        metrics.certificateReadFailed();
        throw error;
      }
    },
    readBundles: async (waiting) => (await readPublished(waiting)).flatMap(({ bundle }) => bundle ?? []),
    sleep: (ms, waiting) => sleep(ms, undefined, { signal: waiting }),
    now: serverClock.now,
    log: log.child({ secret: SERVING_SECRET }),
  });
  const watched = watch<Secret>(
    context,
    {
      resource: secrets,
      namespace: config.namespace,
      fieldSelector: `metadata.name=${SERVING_SECRET}`,
      onChange: (key) => {
        const certificate = certificateIn(watched.store.get(key));
        // Nothing there: the leader is about to mend it; we go on with what we have.
        if (certificate !== undefined) void presenter.offer(certificate, signal);
      },
    },
    signal,
  );
}

function certificateIn(secret: Secret | undefined): ServingCertificate | undefined {
  const [chain, key] = [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY].map((name) => decode(secret?.data?.[name]));
  return chain === undefined || key === undefined ? undefined : { chain, key };
}

function decode(base64: string | undefined): string | undefined {
  return base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString('utf8');
}
