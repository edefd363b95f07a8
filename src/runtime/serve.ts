/** Runs the webhook process and the controller process in one replica. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { loadConnection, type Connection } from '../kube/connection.ts';
import { createClientAuthenticator, type ClientTrust } from '../server/listener/client-certificates.ts';
import { watchEventLoop } from '../server/limits/event-loop.ts';
import type { HealthCheck } from '../server/health.ts';
import { createListener } from '../server/listener/listener.ts';
import type { StatusPageOptions } from '../server/status-page/status-page.ts';
import type { DevUrl } from '../config/dev-url.ts';
import { type Context, connect, type Connected } from './context.ts';
import { createMetrics } from '../server/metrics/metrics.ts';
import { buildOperationsServer } from '../server/operations-server.ts';
import { createLoadShedding, maxBodyBytes } from '../server/limits/load-shedding.ts';
import { WEBHOOK_LIMITS, type WebhookServerOptions } from '../server/webhook-server.ts';
import type { LoadedHandler } from './handlers/load-handlers.ts';
import { createLog, withDebugIfEnabled } from './log.ts';
import { followClientCa, readClientTrust } from './client-ca.ts';
import { watchClockSkew } from './clock-skew.ts';
import { startConversions } from './conversions/start-conversions.ts';
import { openHandlers, startHandlers } from './handlers/handlers.ts';
import { campaign } from './controller-process.ts';
import { startReplica } from './webhook-process.ts';
import { followServingSecret } from './certificates/own-certificate.ts';
import { openTracing } from './tracing.ts';

/** Content and access rules of the status page. */
export interface StatusPage {
  readonly options: StatusPageOptions;
  /** Called once the API server has been reached. Until then the page asks visitors to retry. */
  readonly open: (context: Context, server: string) => void;
}

/** What the command line supplies. */
export interface ServeOptions {
  /** Called with `--status-page`. */
  readonly statusPage: (config: Config, log: Logger) => StatusPage;
  /** With `--dev-url`, runs instead of the leader election. */
  readonly devSession: (
    context: Context,
    url: DevUrl,
    webhooks: Webhooks,
    draining: AbortSignal,
  ) => Promise<void>;
  /** Connects to the API server. Default: the one that the kubeconfig, the environment or the pod names. */
  readonly connection?: () => Connection;
  /** The file for the log. Default: stdout. */
  readonly logFile?: string;
  /** Aborts to stop the replica. Default: on SIGTERM or SIGINT. */
  readonly draining?: AbortSignal;
}

/** Runs until it is stopped. Rejects when it cannot start or continue. */
export async function serve(config: Config, options: ServeOptions): Promise<void> {
  const identity = config.identity ?? `${hostname()}-${randomBytes(3).toString('hex')}`;
  const log = createLog(config.logLevel, identity, options.logFile);
  const draining = options.draining ?? drainOnSignal(log);
  const tracing = await openTracing(process.env, config.namespace, identity, log);
  const clients = await readClientTrust(config);
  const metrics = createMetrics(config.exemplars ? () => tracing?.exemplar() : undefined);
  // Health and metrics first: probes need answers while the API server is unreachable too.
  const ready: Record<string, HealthCheck> = { start: () => 'the API server has not been reached yet' };
  const statusPage = config.statusPage ? options.statusPage(config, log) : undefined;
  const live = { ping: () => undefined };
  const operations = buildOperationsServer(live, ready, metrics, statusPage?.options);
  await operations.listen({ host: config.host, port: config.operationsPort });
  const ended = new AbortController();
  try {
    const handlers = await openHandlers(config.handlers, { metrics, log }, ended.signal);
    const connection = options.connection?.() ?? (await loadConnection(config));
    const connected = await connect(connection, { config, identity, metrics, tracing, log }, draining);
    statusPage?.open(connected.context, connection.server);
    await run(connected, handlers, clients, options.devSession, ready, draining);
  } catch (error) {
    if (!draining.aborted) throw error;
  } finally {
    ended.abort();
    await operations.close();
    await tracing?.close();
  }
  log.info({}, 'stopped');
}

async function run(
  connected: Connected,
  handlers: readonly LoadedHandler[],
  clients: ClientTrust | undefined,
  devSession: ServeOptions['devSession'],
  ready: Record<string, HealthCheck>,
  draining: AbortSignal,
): Promise<void> {
  const { context, close } = connected;
  const { config, metrics, serverClock, log } = context;
  const shutdown = new AbortController();
  const { isFull } = watchEventLoop(metrics.eventLoopDelay, shutdown.signal);
  const webhooks = startWebhooks(connected, handlers, clients, isFull, draining, shutdown.signal);
  const { replica, conversions, listener } = webhooks;
  watchClockSkew(serverClock, metrics, log, shutdown.signal);
  // Load fails no check: a replica that leaves its Service makes the others fail, too.
  Object.assign(ready, {
    start: () => undefined,
    certificate: () => listener.problem(new Date()),
    ...webhooks.checks,
    shutdown: () => (draining.aborted ? 'the process is ending' : undefined),
  } satisfies Record<string, HealthCheck>);

  let leading = Promise.resolve();
  if (config.devUrl === undefined) {
    followServingSecret(context, listener, shutdown.signal);
    // The next leader need not wait until this replica has served its last request.
    leading = campaign(connected, replica, conversions, draining);
    const end = drained(draining, config.drainDelayMs);
    // A failed election ends the process: a replica that can never lead would go unnoticed.
    await Promise.race([end, leading.then(() => end)]);
  } else {
    // On a developer's machine: the cluster has its leader, and this process never becomes one.
    await devSession(context, config.devUrl, webhooks, draining);
  }
  await listener.close();
  shutdown.abort(new Error('shutting down'));
  await leading;
  await close();
}

export type Webhooks = ReturnType<typeof startWebhooks>;

/** Starts everything that a webhook request needs, and listens for requests. */
function startWebhooks(
  { context, isAway }: Connected,
  loaded: readonly LoadedHandler[],
  clients: ClientTrust | undefined,
  isLoopFull: () => boolean,
  draining: AbortSignal,
  signal: AbortSignal,
) {
  const { config, metrics, tracing, log } = context;
  const handlers = startHandlers(context, loaded, signal);
  const replica = startReplica(context, handlers, signal);
  const conversions = startConversions(context, handlers.converters, signal);
  const limits = { reviews: config.maxAdmissionReviews, bodyBytes: maxBodyBytes() };
  const admission = recordVisits(replica.admission);
  const listener = createListener(config, {
    ...admission,
    judgePath: (token) => {
      const verdict = replica.paths.judge(token);
      // Another replica may know a newer token.
      return verdict === 'unknown' && isAway() ? 'unread' : verdict;
    },
    conversion: conversions.serving,
    // Another replica may still reach the API server.
    isDraining: () => draining.aborted || isAway(),
    limits: {
      ...WEBHOOK_LIMITS,
      connections: config.maxConnections,
      requestMs: config.connectionTimeoutMs,
    },
    clients: clients === undefined ? undefined : createClientAuthenticator(clients, metrics, log),
    loadShedding: createLoadShedding(limits, isLoopFull, metrics, log),
    ...{ metrics, tracing, log: withDebugIfEnabled(log) },
  });
  if (clients !== undefined) void followClientCa(context, clients, listener, signal);
  /** All of these pass before a development session redirects the webhooks. */
  const checks = { ...replica.checks, conversions: conversions.check } satisfies Record<string, HealthCheck>;
  return { replica, conversions, listener, admission, checks };
}

function drainOnSignal(log: Logger): AbortSignal {
  const draining = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const)
    process.once(name, () => {
      log.info({ signal: name }, 'draining');
      draining.abort(new Error(name));
    });
  return draining.signal;
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
