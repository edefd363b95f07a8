/** What only the leader runs: everything that writes. Its client refuses to write once the lease may have run out. */
import { createClient } from '../kube/client.ts';
import { createEventRecorder } from '../kube/events.ts';
import { fenced } from '../kube/fence.ts';
import { startCertificates } from './certificates/start-certificates.ts';
import type { Context } from './context.ts';
import type { Conversions } from './conversions/start-conversions.ts';
import { startGuardPolicy } from './webhooks/protect-own-kinds.ts';
import type { OwnLease } from './leadership/own-lease.ts';
import { startOwnSweeps } from './restores/own-sweeps.ts';
import { startPolicies } from './policies/start-policies.ts';
import type { ReplicaParts } from './webhook-process.ts';
import { startRestores } from './restores/start-restores.ts';
import { startUniqueClaims } from './claims/start-unique-claims.ts';

export interface LeaderParts {
  readonly replica: ReplicaParts;
  readonly conversions: Conversions;
  readonly ownLease: OwnLease;
}

/** Runs until the signal aborts and the last reconcile has ended. */
export async function lead(
  context: Context,
  { replica, conversions, ownLease }: LeaderParts,
  isLeader: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  const leading = { ...context, client: fenced(createClient(context.rest), isLeader) };
  const recorder = createEventRecorder({
    client: leading.client,
    component: 'gatehouse',
    instance: context.identity,
    log: context.log,
    signal, // what still waits then would keep the process from ending, for minutes after a large rotation
  });

  const ownSweeps = startOwnSweeps(leading, ownLease, signal);
  const certificates = startCertificates(leading, recorder.record, signal);
  const governing = async () => {
    // What the replica has not judged yet must not be taken out of the webhook configurations.
    await whenJudged(replica, signal);
    await Promise.all([replica.windows.whenSynced(signal), replica.detectors.whenSynced(signal)]);
    const policies = startPolicies(leading, replica, certificates, recorder.record, signal);
    const restores = startRestores(leading, replica, recorder.record, signal);
    const uniqueClaims = startUniqueClaims(leading, replica, recorder.record, signal);
    const guard = startGuardPolicy(leading, replica, signal);
    await Promise.all([policies.stopped, restores.stopped, uniqueClaims.stopped, guard.stopped]);
  };
  await Promise.all([
    certificates.stopped,
    ownSweeps.stopped,
    untilAborted(governing(), signal),
    conversions.lead(leading, signal),
  ]);
}

/** A wait that ends because we no longer lead is no failure. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function whenJudged({ policies, checks, registry }: ReplicaParts, signal: AbortSignal): Promise<void> {
  await policies.whenSynced(signal);
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const look = () => {
    if (checks.policies() === undefined) resolve(undefined);
  };
  registry.subscribe(look, signal);
  signal.addEventListener('abort', () => {
    reject(signal.reason instanceof Error ? signal.reason : new Error('no longer leading'));
  });
  look();
  await promise;
}
