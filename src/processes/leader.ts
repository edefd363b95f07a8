/** The leader election, and all writing controllers. Their client stops once the lease may have expired. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledPolicy } from '../admission/policy/compile.ts';
import { deletionEntriesOf } from '../admission/webhooks/protect-own-kinds.ts';
import { createClient } from '../kube/client.ts';
import { createEventRecorder } from '../kube/events.ts';
import { orAborted } from '../json/abort.ts';
import { fenced } from '../kube/lease/fence.ts';
import { createElection } from '../kube/lease/lease.ts';
import { ownStateLabels } from '../runtime/certificates/ca-bundle.ts';
import { startCertificates, type Certificates } from '../runtime/certificates/start-certificates.ts';
import { startControllers, startUnlessLent } from '../runtime/controllers/start-controllers.ts';
import { startUniqueClaims } from '../runtime/claims/unique-claims.ts';
import type { ControllersConfig } from '../config/config.ts';
import type { Connected, Context } from '../runtime/context.ts';
import type { LeaderContext } from '../runtime/controller.ts';
import type { Conversions } from '../runtime/conversions/start-conversions.ts';
import { createListeners } from '../runtime/listeners.ts';
import { createOwnLease, LEADER_LEASE, type OwnLease } from '../runtime/leadership/own-lease.ts';
import { startPolicyAudit } from '../runtime/policies/policy-audit.ts';
import { startExceptionStatus } from '../runtime/policies/policy-exceptions.ts';
import { startPolicyStatus } from '../runtime/policies/policy-status.ts';
import { startReadRecords } from '../runtime/policies/read-records.ts';
import { startNativePolicies } from '../runtime/native/native-policies.ts';
import { startDeletionActions } from '../runtime/references/start-deletion-actions.ts';
import { startPolicyReports } from '../runtime/reports/policy-reports.ts';
import { startShareState } from '../runtime/own-state/own-state.ts';
import { startOwnSweeps } from '../runtime/restores/own-sweeps.ts';
import { startRehearsalFigures } from '../runtime/restores/restore-kinds.ts';
import { startRestores } from '../runtime/restores/restore-windows.ts';
import type { Replica } from './replica.ts';
import {
  createInstallation,
  type Installation,
  startLinkInstallation,
} from '../runtime/webhooks/installation.ts';
import { startProtectOwnKinds } from '../runtime/webhooks/own-kinds.ts';
import { startPathRotation } from '../runtime/webhooks/path-tokens.ts';
import { startWebhookConfigurations } from '../runtime/webhooks/webhook-configurations.ts';

export async function campaign(
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
  const everywhere = replica.handlers.controllers.filter(({ leaderOnly }) => !leaderOnly);
  const inReplica = startControllers({ ...context, record: () => undefined }, everywhere, signal);
  await Promise.all([election.run(onStart, signal), inReplica.stopped]);
}

async function lead(
  following: Context<ControllersConfig>,
  replica: Replica,
  conversions: Conversions,
  ownLease: OwnLease,
  signal: AbortSignal,
): Promise<void> {
  const { client, identity, log } = following;
  const { record } = createEventRecorder({
    client,
    log,
    component: 'gatehouse',
    instance: identity,
    signal, // drops queued Events: after a large rotation they would delay the end of the process for minutes
  });
  const context = { ...following, record };
  startRehearsalFigures(context, signal);
  const ownSweeps = startOwnSweeps(context, ownLease, signal);
  const certificates = startCertificates(context, signal);
  const paths = startPathRotation(context, replica.paths, signal);
  const shared = startShareState(context, { ...replica, ownLease }, signal);
  const ofLeader = replica.handlers.controllers.filter(({ leaderOnly }) => leaderOnly);
  const ofUsers = startUnlessLent(context, replica.webhooks, ofLeader, signal);
  const governing = async () => {
    // A policy that this replica has not compiled yet must remain in the webhook configurations.
    await whenCompiled(replica, signal);
    const { windows, detectors } = replica;
    await Promise.all([windows.whenSynced(signal), detectors.whenSynced(signal)]);
    const { namespace, service } = context.config;
    const monotonic = () => performance.now();
    const installation = createInstallation({ client, namespace, service, monotonic, log });
    const running = [
      startLinkInstallation(context, installation, signal),
      startPolicies(context, replica, certificates, installation, signal),
      startRestores(context, replica, signal),
      startUniqueClaims(context, replica, signal),
      startProtectOwnKinds(context, replica, installation, signal),
    ];
    await Promise.all(running.map(({ stopped }) => stopped));
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

function startPolicies(
  context: LeaderContext,
  replica: Replica,
  certificates: Certificates,
  installation: Installation,
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { registry, exceptions } = replica;
  /** Called with the name of a policy whose status is out of date. */
  const news = createListeners<[name: string]>();
  const audited = createListeners<[name: string]>();
  audited.add(news.tell);
  const audit = startPolicyAudit(context, replica, audited.tell, signal);
  const reports = context.config.policyReports
    ? startPolicyReports(context, registry, audit.audits, signal)
    : undefined;
  if (reports !== undefined) audited.add(reports.refresh);
  const native = context.config.compilePolicies
    ? startNativePolicies(context, replica, installation, news.tell, signal)
    : undefined;
  const deletions = startDeletionActions(context, replica, news.tell, signal);
  const refusals = createRefusals(context.log, () => {
    for (const { name } of registry.inForce()) news.tell(name);
  });
  const written = { certificates, installation, ...refusals };
  const configurations = startWebhookConfigurations(context, replica, written, signal);
  const facts = {
    refusal: refusals.of,
    violations: audit.result,
    enforcementOf: native?.enforcementOf,
    deletions,
  };
  const status = startPolicyStatus(context, replica, facts, signal);
  news.add(status.add);
  const running = [
    ...[audit, deletions, configurations, status],
    startReadRecords(context, replica, signal),
    startExceptionStatus(context, registry, exceptions, audit.refresh, signal),
    ...[reports, native].filter((one) => one !== undefined),
  ];
  return { stopped: Promise.all(running.map(({ stopped }) => stopped)) };
}

function createRefusals(log: Context['log'], onChange: () => void) {
  let refused: ReadonlyMap<string, string> = new Map();
  let waiting: string | undefined;
  return {
    of: (policy: CompiledPolicy): string | undefined => {
      if (waiting !== undefined) return waiting;
      const ids = [policy, ...deletionEntriesOf(policy)].map(({ entryId }) => `${entryId}.`);
      return [...refused].find(([webhook]) => ids.some((id) => webhook.startsWith(id)))?.[1];
    },
    onRefused: (next: ReadonlyMap<string, string>): void => {
      if (isDeepStrictEqual(refused, next)) return;
      refused = next;
      onChange();
    },
    onWaiting: (reason: string | undefined): void => {
      if (waiting === reason) return;
      waiting = reason;
      if (reason !== undefined)
        log.warn({ reason }, 'the webhooks are not written, because no replica is ready to serve them');
      onChange();
    },
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
