/** The three processes: webhook replicas, controllers, and both in one process. */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config, ControllersConfig, WebhookConfig } from '../config/config.ts';
import { createClientAuthenticator, type ClientTrust } from '../server/listener/client-certificates.ts';
import { watchEventLoop } from '../server/limits/event-loop.ts';
import type { HealthCheck } from '../server/health.ts';
import { createListener } from '../server/listener/listener.ts';
import type { DevUrl } from '../config/dev-url.ts';
import { createClient } from '../kube/client.ts';
import type { Context } from './context.ts';
import { createDryRun, NO_DRY_RUN } from './webhooks/dry-run.ts';
import { configurationTarget } from './webhooks/installed-webhooks.ts';
import { createLoadShedding, maxBodyBytes } from '../server/limits/load-shedding.ts';
import { WEBHOOK_LIMITS, type WebhookServerOptions } from '../server/webhook-server.ts';
import { withDebugIfEnabled } from './log.ts';
import { followClientCa, readClientTrust } from './client-ca.ts';
import { startConversions } from './conversions/start-conversions.ts';
import { campaign } from './controller-process.ts';
import { startReplica, type ReplicaParts } from './webhook-process.ts';
import { presentServingSecret } from './certificates/own-certificate.ts';
import {
  createIsOurs,
  followCopies,
  followInSession,
  followOwnSecrets,
  readOwnName,
  readWebhookReplicas,
} from './own-state/own-state.ts';
import { followSharedState, watchServingSecret } from './own-state/shared-state.ts';
import { watchOwnService } from './own-service.ts';
import { runProcess, type Process, type ProcessOptions, type StatusPage } from './process.ts';

export interface ControllersOptions extends ProcessOptions {
  /** Called with `--status-page`. */
  readonly statusPage: (config: ControllersConfig, log: Logger) => StatusPage;
}

/** What the command line supplies. */
export interface ServeOptions extends ControllersOptions {
  /** With `--dev-url`, runs instead of the leader election. */
  readonly devSession: (
    context: Context<Config>,
    url: DevUrl,
    webhooks: Webhooks,
    draining: AbortSignal,
  ) => Promise<void>;
}

/** A webhook replica. Of all Secrets it reads one, and it writes only UniqueClaims. */
export async function webhook(config: WebhookConfig, options: ProcessOptions): Promise<void> {
  const clients = await readClientTrust(config);
  const { exemplars } = config;
  await runProcess(config, { ...options, exemplars }, async (process) => {
    const { connected, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const serving = watchServingSecret(context, shutdown);
    const shared = followSharedState(serving, shutdown);
    const webhooks = startWebhooks(process, clients, {
      ...followCopies(context, shared, shutdown),
      isOurs: createIsOurs(() => shared.current()?.user, config.namespace, readOwnName(context, shutdown)),
      mayWrite: 'claims',
      dryRun: NO_DRY_RUN,
    });
    presentServingSecret(context, serving, webhooks.listener, shutdown);
    checkReadiness({ certificate: webhooks.certificate, ...webhooks.checks });
    await drained(draining, config.drainDelayMs);
    await webhooks.listener.close();
  });
}

/** A replica of the controllers, which leads if it is elected. It accepts no requests of the API server. */
export async function controllers(config: ControllersConfig, options: ControllersOptions): Promise<void> {
  const statusPage = statusPageOf(config, options);
  await runProcess(config, { ...options, statusPage }, async (process) => {
    const { connected, handlers, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const parts: ReplicaParts = {
      ...followOwnSecrets(context, shutdown),
      isOurs: () => false,
      strictPolicies: false, // it answers no reviews
      mayWrite: 'everything',
      dryRun: createDryRun(createClient(context.rest), configurationTarget(context)),
      webhookReplicas: readWebhookReplicas(context, shutdown),
    };
    const replica = startReplica(context, handlers, parts, shutdown);
    const conversions = startConversions(context, handlers.converters, shutdown);
    checkReadiness({ ...replica.checks, ...conversions.checks });
    // A failed election ends the process: a replica that can never lead would go unnoticed.
    await campaign(connected, replica, conversions, draining);
  });
}

/** Both in one process, which takes the Secrets instead of their copies. */
export async function serve(config: Config, options: ServeOptions): Promise<void> {
  const clients = await readClientTrust(config);
  const { exemplars } = config;
  const statusPage = statusPageOf(config, options);
  await runProcess(config, { ...options, exemplars, statusPage }, async (process) => {
    const { connected, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const serving = watchServingSecret(context, shutdown);
    const shared = followSharedState(serving, shutdown);
    const webhooks = startWebhooks(process, clients, {
      ...(config.devUrl === undefined
        ? followOwnSecrets(context, shutdown)
        : followInSession(context, shutdown)),
      isOurs: createIsOurs(() => shared.current()?.user, config.namespace),
      mayWrite: 'everything',
      dryRun: createDryRun(createClient(context.rest), configurationTarget(context)),
    });
    const { replica, conversions, listener } = webhooks;
    checkReadiness({ certificate: webhooks.certificate, ...webhooks.checks });
    if (config.devUrl !== undefined) {
      // On a developer's machine: the cluster has its leader, and this process never becomes one.
      await options.devSession(context, config.devUrl, webhooks, draining);
      await listener.close();
      return;
    }
    presentServingSecret(context, serving, listener, shutdown);
    // The next leader need not wait until this replica has served its last request.
    const leading = campaign(connected, replica, conversions, draining);
    const end = drained(draining, config.drainDelayMs);
    await Promise.race([end, leading.then(() => end)]);
    await listener.close();
    await leading;
  });
}

export type Webhooks = ReturnType<typeof startWebhooks>;

const statusPageOf = (config: ControllersConfig, { statusPage }: ControllersOptions) =>
  config.statusPage ? (log: Logger) => statusPage(config, log) : undefined;

/** Starts everything that a webhook request needs, and listens for requests. */
function startWebhooks(
  { connected: { context, isAway }, handlers, draining, shutdown }: Process<WebhookConfig>,
  clients: ClientTrust | undefined,
  ownParts: Omit<ReplicaParts, 'strictPolicies'>,
) {
  const { config, metrics, tracing, log } = context;
  const { isFull } = watchEventLoop(metrics.eventLoopDelay, shutdown);
  const parts = { ...ownParts, strictPolicies: config.strictPolicies };
  const replica = startReplica(context, handlers, parts, shutdown);
  draining.addEventListener('abort', replica.held.stop);
  const conversions = startConversions(context, handlers.converters, shutdown);
  const limits = { reviews: config.maxAdmissionReviews, bodyBytes: maxBodyBytes() };
  const admission = recordVisits(replica.admission);
  const listener = createListener(config, {
    ...admission,
    judgePath: (token) => {
      const verdict = replica.paths.judge(token);
      // Another replica may know a newer token.
      return verdict === 'unknown' && isAway() ? 'unread' : verdict;
    },
    conversion: { ...conversions.serving, bodyLimit: config.conversionBodyLimit },
    // Another replica may still reach the API server.
    isDraining: () => draining.aborted || isAway(),
    limits: {
      ...WEBHOOK_LIMITS,
      connections: config.maxConnections,
      requestMs: config.connectionTimeoutMs,
    },
    clients: clients === undefined ? undefined : createClientAuthenticator(clients, metrics, log),
    loadShedding: createLoadShedding(limits, isFull, metrics, log),
    ...{ metrics, tracing, log: withDebugIfEnabled(log) },
  });
  if (clients !== undefined) void followClientCa(context, clients, listener, shutdown);
  /** All of these pass before a development session redirects the webhooks. */
  const checks = { ...replica.checks, ...conversions.checks } satisfies Record<string, HealthCheck>;
  // Load fails no check: a replica that leaves its Service makes the others fail, too.
  const service = watchOwnService(context, shutdown);
  const certificate: HealthCheck = () => {
    const problem = listener.problem(new Date());
    return problem === undefined ? undefined : (service.problem() ?? problem);
  };
  return { replica, conversions, listener, admission, checks, certificate };
}

/** Resolves when the signal has aborted, and requests in flight have had time to end. */
async function drained(draining: AbortSignal, delayMs: number): Promise<void> {
  if (!draining.aborted) await once(draining, 'abort');
  await sleep(delayMs);
}

type Admission = Pick<WebhookServerOptions, 'mutate' | 'validate'>;

/** `wasAsked`: whether this process has received a review. */
function recordVisits({ mutate, validate }: Admission) {
  let asked = false;
  return {
    mutate: (...question) => {
      asked = true;
      return mutate(...question);
    },
    validate: (...question) => {
      asked = true;
      return validate(...question);
    },
    wasAsked: () => asked,
  } satisfies Admission & { readonly wasAsked: () => boolean };
}
