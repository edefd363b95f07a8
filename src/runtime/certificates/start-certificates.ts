/** Leader: the authority and all that is derived from it. */
import type { RecordEvent } from '../controller.ts';
import type { TrustEvidence } from './trust-evidence.ts';
import type { KubeClient } from '../../kube/client.ts';
import { startAuthority, type RunningAuthority } from './start-authority.ts';
import { startInjection } from '../injection/start-injection.ts';
import { secretAccessOf } from './secret-access.ts';
import { startServingCerts } from './start-serving-certs.ts';
import type { Context } from '../context.ts';

export type Certificates = Pick<RunningAuthority, 'bundle' | 'onAuthority' | 'stopped'>;

export function startCertificates(
  context: Context & { readonly client: KubeClient },
  record: RecordEvent,
  signal: AbortSignal,
): Certificates {
  const access = secretAccessOf(context.client);
  // Those whom a rotation asks are started after it; until they have seen the cluster they know nothing.
  let evidence: TrustEvidence = { targetsWithout: () => undefined, leavesOf: () => undefined };
  const { authority, bundle, onAuthority, reconsider, stopped } = startAuthority(
    context,
    {
      access,
      record,
      evidence: {
        targetsWithout: (generation) => evidence.targetsWithout(generation),
        leavesOf: (generation) => evidence.leavesOf(generation),
      },
    },
    signal,
  );
  const servingCerts = startServingCerts(context, { authority, record, onEvidence: reconsider }, signal);
  const injection = startInjection(context, { authority, bundle, record, onEvidence: reconsider }, signal);
  evidence = { targetsWithout: injection.targetsWithout, leavesOf: servingCerts.leavesOf };
  const derived = [servingCerts, injection];
  for (const { resync } of derived) onAuthority(resync);
  return {
    bundle,
    onAuthority,
    stopped: Promise.all([stopped, ...derived.map((one) => one.stopped)]),
  };
}
