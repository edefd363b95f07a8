/**
 * The leader election, and the composition root of the leader: all writing controllers. Their client stops once the lease
 * may have expired.
 */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledPolicy } from '../admission/policy/compile.ts';
import { deletionEntriesOf } from '../admission/webhooks/policy-entries.ts';
import { createClient } from '../kube/client.ts';
import { createEventRecorder } from '../kube/events.ts';
import { orAborted } from '../kube/clock.ts';
import { fenced } from '../kube/lease/fence.ts';
import { createElection } from '../kube/lease/lease.ts';
import { ownStateLabels } from './certificates/ca-bundle.ts';
import { startCertificates, type Certificates } from './certificates/start-certificates.ts';
import { startUnlessLent } from './controllers/lend-controllers.ts';
import { startUniqueClaims } from './claims/start-unique-claims.ts';
import type { ControllersConfig } from '../config/config.ts';
import type { Connected, Context } from './context.ts';
import type { LeaderContext } from './controller.ts';
import type { Conversions } from './conversions/start-conversions.ts';
import { createOwnLease, LEADER_LEASE, type OwnLease } from './leadership/own-lease.ts';
import { startPolicyAudit } from './policies/policy-audit.ts';
import { startExceptionStatus } from './policies/exception-status.ts';
import { startPolicyStatus } from './policies/policy-status.ts';
import { startReadRecords } from './policies/read-records.ts';
import { startNativePolicies } from './native/native-policies.ts';
import { startDeletionActions } from './references/start-deletion-actions.ts';
import { startPolicyReports } from './reports/policy-reports.ts';
import { startShareState } from './own-state/share-state.ts';
import { startOwnSweeps } from './restores/own-sweeps.ts';
import { startRehearsalFigures } from './restores/rehearsal-figures.ts';
import { startRestores } from './restores/restore-windows.ts';
import type { Replica } from './webhook-process.ts';
import { startProtectOwnKinds } from './webhooks/protect-own-kinds.ts';
import { startPathRotation } from './webhooks/path-tokens.ts';
import { startWebhookConfigurations } from './webhooks/webhook-configurations.ts';

/** Takes part in the leader election, and leads when it wins, until the signal aborts. */
export function campaign(
  { context, urgent }: Connected<ControllersConfig>,
  replica: Replica,
  conversions: Conversions,
  signal: AbortSignal,
): Promise<void> {
  const { config, identity, metrics, rollbacks, serverClock, log } = context;
  const ownLease = createOwnLease(
    rollbacks.tell,
    metrics,
    serverClock.now,
    log,
    config,
    config.caPropagationWaitMs,
  );
  const election = createElection({
    ...config.lease,
    client: urgent,
    namespace: config.namespace,
    name: LEADER_LEASE,
    identity,
    labels: ownStateLabels,
    notes: ownLease.notes,
    log,
  });
  const onStart = async (leading: AbortSignal) => {
    metrics.leader(true);
    try {
      const client = createClient(fenced(context.rest, election.isLeader));
      await lead({ ...context, client }, replica, conversions, ownLease, leading);
    } finally {
      metrics.leader(false);
    }
  };
  return election.run({ onStart }, signal);
}

/** Resolves when the signal has aborted and the last reconcile has ended. */
async function lead(
  following: Context<ControllersConfig>,
  replica: Replica,
  conversions: Conversions,
  ownLease: OwnLease,
  signal: AbortSignal,
): Promise<void> {
  const { client, identity, log } = following;
  const { record } = createEventRecorder({
    ...{ client, log, component: 'gatehouse', instance: identity },
    signal, // drops queued Events: after a large rotation they would delay the end of the process for minutes
  });
  const context = { ...following, record };
  startRehearsalFigures(context, signal);
  const ownSweeps = startOwnSweeps(context, ownLease, signal);
  const certificates = startCertificates(context, signal);
  const paths = startPathRotation(context, replica.paths, signal);
  const shared = startShareState(context, replica, signal);
  const ofUsers = startUnlessLent(context, replica.webhooks, replica.handlers.controllers, signal);
  const governing = async () => {
    // A policy that this replica has not compiled yet must stay in the webhook configurations.
    await whenCompiled(replica, signal);
    await Promise.all([replica.windows.whenSynced(signal), replica.detectors.whenSynced(signal)]);
    const policies = startPolicies(context, replica, certificates, signal);
    const restores = startRestores(context, replica, signal);
    const uniqueClaims = startUniqueClaims(context, replica, record, signal);
    const ownKinds = startProtectOwnKinds(context, replica, signal);
    await Promise.all([policies.stopped, restores.stopped, uniqueClaims.stopped, ownKinds.stopped]);
  };
  await Promise.all([
    certificates.stopped,
    paths.stopped,
    shared.stopped,
    ownSweeps.stopped,
    ofUsers.stopped,
    untilAborted(governing(), signal),
    conversions.lead(context, signal),
  ]);
}

/** Status, audit and webhook configurations of AdmissionPolicies. */
function startPolicies(
  context: LeaderContext,
  replica: Replica,
  certificates: Certificates,
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const onAudited = (name: string) => {
    status.add(name);
    reports?.refresh();
  };
  const audit = startPolicyAudit(context, replica, context.record, onAudited, signal);
  let refused: ReadonlyMap<string, string> = new Map();
  let waiting: string | undefined;
  const refusal = (policy: CompiledPolicy) => {
    if (waiting !== undefined) return waiting;
    const ids = [policy, ...deletionEntriesOf(policy)].map(({ entryId }) => `${entryId}.`);
    return [...refused].find(([webhook]) => ids.some((id) => webhook.startsWith(id)))?.[1];
  };
  const reports = audit.findings && startPolicyReports(context, replica, audit.findings, signal);
  const onEnforcers = (name: string) => status.add(name);
  const native = context.config.compilePolicies
    ? startNativePolicies(context, replica, onEnforcers, signal)
    : undefined;
  const actions = startDeletionActions(context, replica, (name) => status.add(name), signal);
  const facts = {
    refusal,
    violations: audit.result,
    enforcementOf: native?.enforcementOf,
    deletions: actions,
  };
  const status = startPolicyStatus(context, replica, facts, signal);
  const refresh = () => {
    for (const { name } of replica.registry.inForce()) status.add(name);
  };
  const onRefused = (next: ReadonlyMap<string, string>) => {
    if (isDeepStrictEqual(refused, next)) return;
    refused = next;
    refresh();
  };
  const onWaiting = (reason: string | undefined) => {
    if (waiting === reason) return;
    waiting = reason;
    if (reason !== undefined)
      context.log.warn({ reason }, 'the webhooks are not written yet: no replica can serve');
    refresh();
  };
  const webhooks = startWebhookConfigurations(
    context,
    replica,
    certificates,
    { onRefused, onWaiting },
    signal,
  );
  const records = startReadRecords(context, replica, signal);
  const exceptions = startExceptionStatus(context, replica, audit.refresh, signal);
  const optional = [reports, native].filter((one) => one !== undefined);
  const running = [status, webhooks, audit, records, exceptions, actions, ...optional];
  return {
    stopped: Promise.all(running.map(({ stopped }) => stopped)),
  };
}

/** Ignores the error of `work` if the signal has aborted: losing the leadership is not a failure. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface CompiledPolicies {
  readonly policies: Pick<Replica['policies'], 'whenSynced'>;
  readonly records: Pick<Replica['records'], 'whenSynced'>;
  readonly checks: Pick<Replica['checks'], 'policies'>;
  readonly registry: Pick<Replica['registry'], 'subscribe'>;
}

/** Resolves when this replica has compiled every policy that it knows. */
export async function whenCompiled(
  { policies, records, checks, registry }: CompiledPolicies,
  signal: AbortSignal,
): Promise<void> {
  // Without a policy, the registry never changes: the check must not wait for anything else.
  await Promise.all([policies.whenSynced(signal), records.whenSynced(signal)]);
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const check = () => {
    if (checks.policies() === undefined) resolve(undefined);
  };
  registry.subscribe(check, signal);
  check();
  await orAborted(promise, signal);
}
