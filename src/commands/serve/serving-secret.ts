/** Every replica: the Secret with Gatehouse's own serving certificate → the listener. No volume, so no delay. */
import { secrets } from '../../kube/well-known.ts';
import { SERVING_SECRET, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../../pki/annotations.ts';
import type { Secret } from '../../pki/secret.ts';
import type { Listener } from '../../server/listener.ts';
import type { Context } from './context.ts';
import { watch } from './watch.ts';

export function followServingSecret(
  context: Context,
  listener: Pick<Listener, 'present'>,
  signal: AbortSignal,
): void {
  const { namespace } = context.config;
  const present = async (secret: Secret | undefined) => {
    const [chain, key] = [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY].map((name) => decode(secret?.data?.[name]));
    if (chain === undefined || key === undefined) return; // the leader is about to mend it; we go on with what we have
    try {
      await listener.present({ chain, key });
    } catch (err) {
      context.log.error({ err, secret: SERVING_SECRET }, 'could not present the serving certificate');
    }
  };
  const watched = watch<Secret>(
    context,
    {
      resource: secrets,
      namespace,
      fieldSelector: `metadata.name=${SERVING_SECRET}`,
      onChange: (key) => void present(watched.store.get(key)),
    },
    signal,
  );
}

function decode(base64: string | undefined): string | undefined {
  return base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString('utf8');
}
