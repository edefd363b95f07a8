/** Leader: the authority and all that is derived from it. */
import type { RecordEvent } from '../../controllers/reconcile.ts';
import type { KubeClient } from '../../kube/client.ts';
import { startAuthority, type RunningAuthority } from './certificates/authority.ts';
import { startInjection } from './certificates/injection.ts';
import { secretAccessOf } from './certificates/secret-access.ts';
import { startServingCerts } from './certificates/serving-certs.ts';
import type { Context } from './context.ts';

export type Certificates = Pick<RunningAuthority, 'bundle' | 'onAuthority' | 'stopped'>;

export function startCertificates(
  context: Context & { readonly client: KubeClient },
  record: RecordEvent,
  signal: AbortSignal,
): Certificates {
  const access = secretAccessOf(context.client);
  const { authority, bundle, onAuthority, stopped } = startAuthority(context, access, signal);
  const derived = [
    startServingCerts(context, { ...access, authority, record }, signal),
    startInjection(context, bundle, signal),
  ];
  for (const { resync } of derived) onAuthority(resync);
  return {
    bundle,
    onAuthority,
    stopped: Promise.all([stopped, ...derived.map((one) => one.stopped)]),
  };
}
