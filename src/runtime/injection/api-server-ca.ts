/** On the leader: the CA that verifies the API server, as Gatehouse's own connection knows it. */
import { sleep, systemClock } from '../../kube/clock.ts';
import { bundleOfApiServer, type BundleState } from '../../pki/injection/source.ts';
import type { Context } from '../context.ts';

/** The kubelet replaces the file of the service account when the CA changes; no watch reports that. */
const CHECK_EVERY_MS = 60_000;

export function followApiServerCa(
  { apiServerCa, log }: Pick<Context, 'apiServerCa' | 'log'>,
  onChange: () => void,
  signal: AbortSignal,
  clock = systemClock,
): () => BundleState {
  let known: { readonly pem: string | undefined } | undefined;
  const follow = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        const pem = await apiServerCa();
        const isNew = known === undefined || known.pem !== pem;
        known = { pem };
        if (isNew) onChange();
      } catch (err) {
        log.warn({ err }, 'could not read the CA of the API server');
      }
      await sleep(clock, CHECK_EVERY_MS, signal);
    }
  };
  follow().catch(() => undefined); // no longer leading
  return () => (known === undefined ? { kind: 'unknown' } : bundleOfApiServer(known.pem, new Date()));
}
