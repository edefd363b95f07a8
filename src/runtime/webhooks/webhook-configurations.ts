/** On the leader: writes the two webhook configurations named `gatehouse`, as the policies in force require them. */
import { isDeepStrictEqual } from 'node:util';
import type { ReleaseOf } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import {
  devSessionOf,
  withoutDevSession,
  type LiveWebhook,
  type LiveWebhookConfiguration,
} from '../../admission/webhooks/dev-entries.ts';
import type { CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import { ownedBy } from '../../admission/webhooks/installation-owner.ts';
import {
  webhookConfigurations,
  WEBHOOK_CONFIGURATION_NAME,
  type InstalledRules,
} from '../../admission/webhooks/webhook-configurations.ts';
import type { WebhookConfiguration } from '../../admission/webhooks/webhook.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { OwnerReference } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Store } from '../../kube/store.ts';
import type { Certificates } from '../certificates/start-certificates.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';
import { writeAccepted } from './dry-run.ts';
import { guardedPrincipals, pausesOf, restorersOf, type RestoreKinds } from '../restores/restore-kinds.ts';
import { createFirstInstallation, servingObstacle, type Installation } from './installation.ts';
import {
  WEBHOOK_CONFIGURATIONS,
  configurationTarget,
  type InstalledWebhooks,
  type WebhookResource,
} from './installed-webhooks.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { Releases } from '../native/releases.ts';
import type { Handlers } from '../handlers/handlers.ts';
import type { AcceptedPaths } from './path-tokens.ts';

export interface WebhookConfigurationsOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly policies: () => readonly CompiledPolicy[];
  readonly handlers: readonly CompiledHandler[];
  readonly releaseOf: ReleaseOf;
  /** Base64 PEM; undefined until there is an authority. */
  readonly caBundle: () => string | undefined;
  readonly pathToken: () => string | undefined;
  readonly target: ReturnType<typeof configurationTarget>;
  readonly windows: Pick<Store<RestoreWindow>, 'list'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  /** The rules of policies that remain in force until their successors are installed. */
  readonly awaited: () => InstalledRules;
  readonly waitsFor: (signal: AbortSignal) => Promise<string | undefined>;
  readonly installation: Pick<Installation, 'owner' | 'obstacle' | 'withOwner'>;
  readonly onWaiting: (reason: string | undefined) => void;
  readonly onRefused: (refused: ReadonlyMap<string, string>) => void;
  readonly serverNow: () => Date;
  readonly log: Log;
}

/** Without the configurations nothing is enforced, so the leader also reads them at this interval, in milliseconds. */
const RECHECK_MS = 60_000;
const NO_AUTHORITY_MS = 500;
const NOT_SERVING_MS = 1_000;

export function createWebhookConfigurationsReconciler(options: WebhookConfigurationsOptions): Reconcile {
  const { handlers, releaseOf, target, detectors, serverNow } = options;
  return async (_key, signal) => {
    const [caBundle, pathToken] = [options.caBundle(), options.pathToken()];
    if (caBundle === undefined || pathToken === undefined) return requeueIn(NO_AUTHORITY_MS, serverNow());
    const reason = await options.waitsFor(signal);
    if (reason !== undefined) {
      options.onWaiting(reason);
      return requeueIn(NOT_SERVING_MS, serverNow());
    }
    const owner = await options.installation.owner(signal);
    const restorers = restorersOf(detectors);
    const pauses = pausesOf(options.windows, detectors);
    const guarded = guardedPrincipals(options.windows, detectors, serverNow()).Permissions ?? [];
    const wanted = { ...target, caBundle, pathToken, restorers, pauses, guarded };
    const policies = options.policies();
    const { mutating, validating } = webhookConfigurations(policies, wanted, handlers, releaseOf);
    const results = await Promise.allSettled([
      ensure('mutatingwebhookconfigurations', mutating, owner, options, signal),
      ensure('validatingwebhookconfigurations', validating, owner, options, signal),
    ]);
    const states = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const withheld = states.find((state) => state.kind === 'withheld')?.reason;
    options.onWaiting(withheld);
    for (const result of results) if (result.status === 'rejected') throw result.reason;
    const refused = states.flatMap((state) => (state.kind === 'installed' ? [...state.refused] : []));
    options.onRefused(new Map(refused));
    if (withheld !== undefined) return requeueIn(NOT_SERVING_MS, serverNow());
    const expiries = states.flatMap((state) =>
      state.kind === 'lent' ? [state.session.expiresAt.getTime() - serverNow().getTime()] : [],
    );
    return requeueIn(Math.min(RECHECK_MS, ...expiries.map((ms) => Math.max(0, ms) + 100)), serverNow());
  };
}

async function ensure(
  resource: WebhookResource,
  desired: WebhookConfiguration,
  owner: OwnerReference | undefined,
  { client, serverNow, awaited, installation, log }: WebhookConfigurationsOptions,
  signal: AbortSignal,
) {
  const kind = WEBHOOK_CONFIGURATIONS[resource];
  const ref = { name: WEBHOOK_CONFIGURATION_NAME };
  const live = await client.get<LiveWebhookConfiguration>(kind, ref, { signal });
  const obstacle = live === undefined ? await installation.obstacle(signal) : undefined;
  if (obstacle !== undefined) return { kind: 'withheld' as const, reason: obstacle };
  const state = live === undefined ? undefined : devSessionOf(live, serverNow());
  if (state?.kind === 'valid') {
    const { session } = state;
    log.debug({ resource, session }, 'webhook configuration is lent to a developer');
    return { kind: 'lent' as const, session };
  }
  const isAbandoned = state?.kind === 'over';
  if (isAbandoned)
    log.warn({ resource, session: state.session }, 'took webhook configuration back from a developer');
  const writeAs = (by?: OwnerReference) => async (webhooks: readonly LiveWebhook[], dryRun: boolean) => {
    const next = ownedBy(nextOf(live, desired, webhooks, isAbandoned), by);
    if (live === undefined) await client.create(kind, next, { dryRun, signal });
    else if (isAbandoned || !isSame(live, next)) await client.replace(kind, next, { dryRun, signal });
    else return;
    if (!dryRun) log.info({ resource, webhooks: webhooks.length }, 'wrote webhook configuration');
  };
  const refused = await installation.withOwner(owner, (by) =>
    writeAccepted(desired.webhooks, live?.webhooks ?? [], awaited(), writeAs(by)),
  );
  if (refused.size > 0)
    log.error({ resource, refused: Object.fromEntries(refused) }, 'the API server refuses webhooks');
  return { kind: 'installed' as const, refused };
}

function nextOf(
  live: LiveWebhookConfiguration | undefined,
  desired: WebhookConfiguration,
  webhooks: readonly LiveWebhook[],
  isAbandoned: boolean,
): LiveWebhookConfiguration {
  if (live === undefined) return { ...desired, webhooks };
  const metadata = isAbandoned ? withoutDevSession(live.metadata) : live.metadata;
  const labels = { ...metadata?.labels, ...desired.metadata?.labels };
  return { ...live, metadata: { ...metadata, labels }, webhooks };
}

const isSame = (live: LiveWebhookConfiguration, next: LiveWebhookConfiguration): boolean =>
  isDeepStrictEqual(writtenOf(live), writtenOf(next));

const writtenOf = ({ webhooks = [], metadata }: LiveWebhookConfiguration) => [
  webhooks,
  metadata?.labels ?? {},
  metadata?.ownerReferences ?? [],
];

interface ConfigurationSources {
  readonly registry: PolicyRegistry;
  readonly releases: Releases;
  readonly handlers: Handlers;
  readonly windows: RestoreKinds['windows'];
  readonly detectors: RestoreKinds['detectors'];
  readonly paths: AcceptedPaths;
  readonly webhooks: InstalledWebhooks;
}

interface ConfigurationParts extends Pick<WebhookConfigurationsOptions, 'onRefused' | 'onWaiting'> {
  readonly certificates: Certificates;
  readonly installation: Installation;
}

export function startWebhookConfigurations(
  context: Context<ControllersConfig>,
  { registry, releases, handlers, windows, detectors, paths, webhooks }: ConfigurationSources,
  { certificates, installation, onRefused, onWaiting }: ConfigurationParts,
  signal: AbortSignal,
): RunningController {
  const { client, config, serverClock, log } = context;
  const target = configurationTarget(context);
  const waitsFor = createFirstInstallation(client, target.service, (waiting) =>
    servingObstacle(client, config, waiting),
  );
  return startController(
    context,
    {
      name: 'webhook-configurations',
      serverNow: serverClock.now,
      key: WEBHOOK_CONFIGURATION_NAME,
      on: [
        registry.subscribe,
        releases.onChange,
        certificates.onAuthority,
        paths.onChange,
        windows.onChange,
        detectors.onChange,
        installation.onChange,
        webhooks.onChange, // reverts changes that other clients make to these configurations
      ],
      reconcile: createWebhookConfigurationsReconciler({
        client,
        policies: registry.inForce,
        handlers: handlers.all,
        releaseOf: releases.of,
        caBundle: () => {
          const bundle = certificates.bundle();
          return bundle === undefined ? undefined : Buffer.from(bundle).toString('base64');
        },
        pathToken: paths.current,
        target,
        windows: windows.store,
        detectors: detectors.store,
        awaited: registry.awaited,
        waitsFor,
        installation,
        onWaiting,
        onRefused,
        serverNow: serverClock.now,
        log,
      }),
    },
    signal,
  );
}
