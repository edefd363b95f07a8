/**
 * The composition root of every replica: watches policies and windows, and decides reviews. Writes only UniqueClaims.
 */
import type { RestoreWindowFigures } from '../server/metrics/scraped.ts';
import { windowState } from '../restore/window.ts';
import { untilPassed, type HealthCheck } from '../server/health.ts';
import type { AdmissionPolicy } from '../api/admission-policy.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { keyOf } from '../json/kube-object.ts';
import { createPoliciesReconciler } from './policies/policies.ts';
import { namedKinds } from './policies/policy-kinds.ts';
import { createUncompiled } from './policies/uncompiled.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policies/policy-registry.ts';
import type { AccessSubject } from '../kube/access.ts';
import { createClient } from '../kube/client.ts';
import { createAccessAnswers } from './policies/access-answers.ts';
import { createAccessReviews } from './access-reviews.ts';
import { createAdmission } from './policies/admission.ts';
import { createClaims, createNamespaceCheck } from './claims/claims.ts';
import { createIntents } from './claims/intents.ts';
import { startHeldIntents } from './claims/start-held-intents.ts';
import { startUnsettledClaims } from './claims/start-unsettled-claims.ts';
import { createUnsettledClaims } from './claims/unsettled-claims.ts';
import type { Context } from './context.ts';
import { createGoverned } from './policies/governed.ts';
import type { Handlers } from './handlers/handlers.ts';
import { createOwnKinds } from './webhooks/own-kinds.ts';
import { createOwners } from './policies/owners.ts';
import { startController } from './controller.ts';
import { createCrdSchemas } from './policies/crd-schemas.ts';
import { createReadGrants, watchPolicyExceptions } from './policies/policy-exceptions.ts';
import { createExceptionWarnings } from './policies/exception-warnings.ts';
import { createPolicyWarnings } from './policies/policy-warnings.ts';
import { createReadAccess } from './policies/read-access.ts';
import { READS_SECRET } from './policies/read-records.ts';
import { ADMISSION_POLICIES } from './resources.ts';
import type { OwnState } from './own-state/own-state.ts';
import { startReleases } from './native/releases.ts';
import { createAwaitWindow, createWindowOrAwait } from './restores/await-window.ts';
import { createRestoreEvidence } from './restores/restore-evidence.ts';
import { watchRestoreKinds } from './restores/restore-kinds.ts';
import { createTargets } from './policies/targets.ts';
import { watch, type Watched } from './watch.ts';
import type { DryRun } from './webhooks/dry-run.ts';
import { watchInstalledWebhooks } from './webhooks/installed-webhooks.ts';
import { createWorld, withinReach, withoutOwnSecrets } from './policies/world.ts';

/** A policy that waits for a list must not delay the others: at start, many policies wait for their own lists. */
const POLICY_WORKERS = 16;

export type Replica = ReturnType<typeof startReplica>;

export interface ReplicaParts extends OwnState {
  /** Whether a user is the leader, whose writes are trusted. */
  readonly isOurs: (username: string) => boolean;
  /** `claims`: UniqueClaims only. The controllers create the RestoreWindows. */
  readonly mayWrite: 'claims' | 'everything';
  readonly dryRun: DryRun;
  /** Whether a review of a policy that cannot be enforced as it is refuses the policy. */
  readonly strictPolicies: boolean;
  /** The account of the webhook replicas, if this process does not serve webhooks. */
  readonly webhookReplicas?: () => Promise<AccessSubject | undefined>;
}

export function startReplica(
  context: Context,
  handlers: Handlers,
  { paths, records, isOurs, mayWrite, dryRun, strictPolicies, webhookReplicas }: ReplicaParts,
  signal: AbortSignal,
) {
  const { client, discovery, config, serverClock, rollbacks, metrics, log } = context;
  // Compiling a policy can wait: the previous version stays in force meanwhile.
  const patient = createClient(context.rest);
  const now = () => new Date();
  const registry = createPolicyRegistry(
    () => performance.now(),
    () => policiesProblem(policies, registry) === undefined,
    (...asked) => uncompiled.isAwaited(...asked),
    (policy) => releases.of(policy),
  );
  const targets = createTargets(context, signal);
  const governed = createGoverned(
    { ...context.exact, rollbacks, namespaces: context.namespaces, log },
    discovery,
    config.namespace,
    signal,
  );
  const policies = watch<AdmissionPolicy>(context, { resource: ADMISSION_POLICIES }, signal);
  const restoreKinds = watchRestoreKinds(context, signal);
  const { windows, detectors } = restoreKinds;
  const releases = startReleases(context, { registry, policies, detectors }, signal);
  const exceptions = watchPolicyExceptions(context, signal);
  const { grants } = exceptions;
  const environment = { ownNamespace: config.namespace, grants };
  const compiling = {
    ...{ discovery, environment },
    schemas: createCrdSchemas(patient, () => performance.now()),
  };
  const uncompiled = createUncompiled(policies.store, registry, environment);
  policies.onChange(uncompiled.refresh);
  registry.subscribe(uncompiled.refresh);
  const canRead = createReadAccess(patient, { ...context, webhookReplicas }, () => performance.now());
  const controller = startController(
    context,
    {
      name: 'policies',
      concurrency: POLICY_WORKERS,
      reconcile: createPoliciesReconciler({
        policies: policies.store,
        ...{ targets, registry, records, now, log },
        ...{ canRead, dryRun, ...compiling },
      }),
    },
    signal,
  );
  policies.onChange(controller.add);
  records.onChange(() => {
    for (const policy of policies.store.list()) controller.add(keyOf(policy));
  });
  registry.subscribe(() => {
    // Also the kinds of policies that are not in force yet: they may be waiting for these lists.
    targets.keepOnly([
      ...registry.inForce().flatMap((policy) => policy.targets),
      ...policies.store.list().flatMap(({ spec }) => namedKinds(spec)),
    ]);
    governed.follow(registry.inForce());
  });

  const webhooks = watchInstalledWebhooks(context, signal);
  webhooks.onChange(() => {
    registry.observe(webhooks.rules());
    paths.observe(webhooks.tokens());
  });

  const owners = createOwners(client, discovery, isOurs, () => performance.now());
  const unsettled = createUnsettledClaims(
    config.uniqueSettleMs,
    () => performance.now(),
    metrics.refusedClaims,
  );
  const claims = createClaims(client, config.uniqueSettleMs);
  const held = startHeldIntents(context, registry, claims, signal);
  const awaitWindow = createAwaitWindow(windows);
  const storeWindow = mayWrite === 'claims' ? awaitWindow : createWindowOrAwait(client, awaitWindow, log);
  const everything = createWorld(client, context.exact.client, discovery, targets, {
    ...createRestoreEvidence(context, windows, detectors, storeWindow),
    readGrants: createReadGrants(client),
    governed,
    intents: { ...createIntents(client, governed, context.namespaces), hold: held.hold },
    claims: {
      ...claims,
      reserve: unsettled.reserve,
      hasNamespace: createNamespaceCheck(client),
    },
    owners,
    prove: records.prove,
    access: createAccessAnswers(client, () => performance.now()),
  });
  const world = withinReach(withoutOwnSecrets(everything, config.namespace), context.namespaces);
  startUnsettledClaims(context, { registry, governed, targets, world }, unsettled, held, signal);
  metrics.scrape({
    restoreWindows: () => windows.store.list().map((window) => figuresOf(window, serverClock.now())),
  });
  const accessReviews = createAccessReviews(client);
  const serverNow = () => serverClock.now().getTime();
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
      createOwnKinds(
        ...([accessReviews, windows, detectors, owners, records, config.namespace] as const),
        {
          ofPolicy: createPolicyWarnings({ ...compiling, strict: strictPolicies, log }),
          ofException: createExceptionWarnings(registry, serverClock.now),
        },
        serverClock.now,
      ),
      context.namespaces,
      releases.of,
    ),
    checks: {
      policies: untilPassed(() =>
        records.hasSynced()
          ? policiesProblem(policies, registry)
          : `Secret ${READS_SECRET}, or the copy of it, has not been read yet`,
      ),
      stores: untilPassed(() => {
        const unsynced = [...targets.unsynced(), ...governed.unsynced()];
        return unsynced.length === 0 ? undefined : `not listed yet: ${unsynced.join(', ')}`;
      }),
      handlers: handlers.check,
      'webhook-paths': untilPassed(paths.problem),
      ...restoreKinds.checks,
    } satisfies Record<string, HealthCheck>,
  };
}

function figuresOf(window: RestoreWindow, now: Date): RestoreWindowFigures {
  const { metadata, spec, status } = window;
  return {
    window: metadata.name ?? '',
    source: spec.source?.type ?? 'Manual',
    open: windowState(window, now).kind === 'open',
    expiresAt: new Date(spec.expiresAt).getTime() / 1_000,
    violations: status?.violations?.total ?? 0,
  };
}

function policiesProblem(policies: Watched<AdmissionPolicy>, registry: PolicyRegistry): string | undefined {
  if (!policies.hasSynced()) return 'AdmissionPolicies have not been listed yet: are the CRDs installed?';
  const unjudged = policies.store
    .list()
    .filter(({ metadata }) => registry.get(metadata.name ?? '') === undefined);
  return unjudged.length === 0
    ? undefined
    : `not compiled yet: ${unjudged.map(({ metadata }) => metadata.name).join(', ')}`;
}
