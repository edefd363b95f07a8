/** What every process keeps: the policies, windows and stores, and the answers to reviews. Writes only UniqueClaims. */
import type { AdmissionPolicy } from '../api/admission-policy.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import type { AccessSubject } from '../kube/access.ts';
import { createClient } from '../kube/client.ts';
import { windowState } from '../restore/window.ts';
import { createAccessReviews, createAccessAnswers } from '../runtime/access-reviews.ts';
import { createClaims, createNamespaceCheck, createIntents } from '../runtime/claims/claims.ts';
import { startHeldIntents } from '../runtime/claims/held-intents.ts';
import { startUnsettledClaims, createUnsettledClaims } from '../runtime/claims/unsettled-claims.ts';
import type { Context } from '../runtime/context.ts';
import { startController } from '../runtime/controller.ts';
import type { Handlers } from '../runtime/handlers/handlers.ts';
import { startReleases } from '../runtime/native/releases.ts';
import type { OwnState } from '../runtime/own-state/own-state.ts';
import { createAdmission } from '../runtime/policies/admission.ts';
import { createCrdSchemas, namedKinds } from '../runtime/policies/policy-kinds.ts';
import {
  createExceptionWarnings,
  createReadGrants,
  watchPolicyExceptions,
} from '../runtime/policies/policy-exceptions.ts';
import { createGoverned } from '../runtime/policies/governed.ts';
import {
  createOwners,
  createWorld,
  withinReach,
  withoutOwnSecrets,
  createTargets,
} from '../runtime/policies/world.ts';
import { createPoliciesReconciler } from '../runtime/policies/policies.ts';
import { createPolicyRegistry } from '../runtime/policies/policy-registry.ts';
import { createPolicyWarnings } from '../runtime/policies/author-review.ts';
import { createReadAccess } from '../runtime/policies/read-access.ts';
import { READS_SECRET } from '../runtime/policies/read-records.ts';
import { ADMISSION_POLICIES } from '../runtime/resources.ts';
import {
  createAwaitWindow,
  createWindowOrAwait,
  createRestoreEvidence,
} from '../runtime/restores/restore-evidence.ts';
import { createPauseWrites } from '../runtime/restores/quiesce/pause-writes.ts';
import { watchRestoreKinds } from '../runtime/restores/restore-kinds.ts';
import { watch } from '../runtime/watch.ts';
import type { DryRun } from '../runtime/webhooks/dry-run.ts';
import { watchInstalledWebhooks } from '../runtime/webhooks/installed-webhooks.ts';
import { createOwnKinds } from '../runtime/webhooks/own-kinds.ts';
import { createRestoreGuards } from '../runtime/webhooks/restore-guard.ts';
import { untilPassed, type HealthCheck } from '../server/operations-server.ts';
import type { RestoreWindowFigures } from '../server/metrics/scraped.ts';

/** A policy that waits for a list must not delay the others: at start, many policies wait for their own lists. */
const POLICY_WORKERS = 16;

export type Replica = ReturnType<typeof startReplica>;

export interface ReplicaParts extends OwnState {
  readonly isOurs: (username: string) => boolean;
  /** `claims`: UniqueClaims only. The controllers create the RestoreWindows. */
  readonly mayWrite: 'claims' | 'everything';
  readonly dryRun: DryRun;
  /** Whether a review of a policy that cannot be enforced as it is refuses the policy. */
  readonly strictPolicies: boolean;
  readonly webhookReplicas?: () => Promise<AccessSubject | undefined>;
}

export function startReplica(
  context: Context,
  handlers: Handlers,
  { paths, records, isOurs, mayWrite, dryRun, strictPolicies, webhookReplicas }: ReplicaParts,
  signal: AbortSignal,
) {
  const { client, discovery, config, namespaces, serverClock, rollbacks, metrics, log } = context;
  const { namespace: ownNamespace } = config;
  // Compiling can wait, because the previous version remains in force.
  const patient = createClient(context.rest);
  const now = () => new Date();
  const monotonic = () => performance.now();
  const serverNow = () => serverClock.now().getTime();

  // What is watched
  const policies = watch<AdmissionPolicy>(context, { resource: ADMISSION_POLICIES }, signal);
  const { windows, detectors, checks } = watchRestoreKinds(context, signal);
  const exceptions = watchPolicyExceptions(context, signal);
  const webhooks = watchInstalledWebhooks(context, signal);
  const targets = createTargets(context, signal);
  const exactly = { ...context.exact, rollbacks, namespaces, log };
  const governed = createGoverned(exactly, discovery, ownNamespace, signal);

  // What is in force
  const environment = { ownNamespace, grants: exceptions.grants };
  const compiling = { discovery, environment, schemas: createCrdSchemas(patient, monotonic) };
  const registry = createPolicyRegistry(monotonic, { policies, environment });
  const releases = startReleases(context, { registry, policies, detectors }, signal);
  registry.leave(releases.of);
  const canRead = createReadAccess(patient, context, monotonic, webhookReplicas);
  const reconcile = createPoliciesReconciler({
    policies: policies.store,
    targets,
    registry,
    records,
    now,
    log,
    canRead,
    dryRun,
    ...compiling,
  });
  const on = [records.onChange];
  const options = { name: 'policies', objects: policies, on, concurrency: POLICY_WORKERS, reconcile };
  startController(context, options, signal);
  registry.subscribe(() => {
    // Also the kinds of policies that are not in force yet: they may be waiting for these lists.
    targets.keepOnly([
      ...registry.inForce().flatMap((policy) => policy.targets),
      ...policies.store.list().flatMap(({ spec }) => namedKinds(spec)),
    ]);
    governed.follow(registry.inForce());
  });
  webhooks.onChange(() => {
    registry.observe(webhooks.rules());
    paths.observe(webhooks.tokens());
  });

  // What policies may ask
  const owners = createOwners(client, discovery, isOurs, monotonic);
  const unsettled = createUnsettledClaims(config.uniqueSettleMs, monotonic, metrics.refusedClaims);
  const claims = createClaims(client, config.uniqueSettleMs);
  const held = startHeldIntents(context, registry, claims, signal);
  const awaitWindow = createAwaitWindow(windows);
  const storeWindow = mayWrite === 'claims' ? awaitWindow : createWindowOrAwait(client, awaitWindow, log);
  const everything = createWorld(client, context.exact.client, discovery, targets, {
    ...createRestoreEvidence(context, windows, detectors, storeWindow),
    readGrants: createReadGrants(client),
    governed,
    intents: { ...createIntents(client, governed, namespaces), hold: held.hold },
    claims: { ...claims, reserve: unsettled.reserve, hasNamespace: createNamespaceCheck(client) },
    owners,
    prove: records.prove,
    access: createAccessAnswers(client, monotonic),
  });
  const world = withinReach(withoutOwnSecrets(everything, ownNamespace), namespaces);
  startUnsettledClaims(context, { registry, governed, targets, world }, unsettled, held, signal);

  // What it answers
  const mayUser = createAccessReviews(client);
  const guards = createRestoreGuards({ client, mayUser, windows, detectors }, serverClock.now);
  const ownKinds = createOwnKinds(
    { mayUser, windows, detectors, owners, guards, records, ownNamespace },
    {
      ofPolicy: createPolicyWarnings({ ...compiling, strict: strictPolicies, log }),
      ofException: createExceptionWarnings(registry, serverClock.now),
    },
    serverClock.now,
  );
  metrics.scrape({
    restoreWindows: () => windows.store.list().map((window) => figuresOf(window, serverClock.now())),
  });
  return {
    registry,
    releases,
    policies,
    exceptions,
    records,
    windows,
    detectors,
    webhooks,
    targets,
    governed,
    held,
    handlers,
    paths,
    world,
    admission: createAdmission(
      registry,
      world,
      handlers,
      serverNow,
      { ...ownKinds, pause: createPauseWrites(context, { windows, records, world }) },
      namespaces,
      releases.of,
    ),
    checks: {
      policies: untilPassed(() =>
        records.hasSynced()
          ? registry.problem()
          : `Secret ${READS_SECRET}, or the copy of it, has not been read yet`,
      ),
      stores: untilPassed(() => {
        const unsynced = [...targets.unsynced(), ...governed.unsynced()];
        return unsynced.length === 0 ? undefined : `not listed yet: ${unsynced.join(', ')}`;
      }),
      handlers: handlers.check,
      'webhook-paths': untilPassed(paths.problem),
      ...checks,
    } satisfies Record<string, HealthCheck>,
  };
}

function figuresOf(window: RestoreWindow, now: Date): RestoreWindowFigures {
  const { metadata, spec, status } = window;
  const { currentSweep } = status ?? {};
  return {
    window: metadata.name ?? '',
    source: spec.source?.type ?? 'Manual',
    open: windowState(window, now).kind === 'open',
    expiresAt: new Date(spec.expiresAt).getTime() / 1_000,
    violations: status?.violations?.total,
    sweep: currentSweep && {
      phase: currentSweep.phase ?? 'Reading',
      objects: currentSweep.objectsScanned,
    },
  };
}
