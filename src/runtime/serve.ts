/** Runs the webhook process and the controller process in one replica. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { ownStateLabels } from './certificates/ca-bundle.ts';
import { loadConnection, type Connection } from '../kube/connection.ts';
import { createElection } from '../kube/lease/lease.ts';
import { createClientAuthenticator, type ClientTrust } from '../server/listener/client-certificates.ts';
import { watchEventLoop } from '../server/limits/event-loop.ts';
import type { HealthCheck } from '../server/health.ts';
import { createListener, type Listener } from '../server/listener/listener.ts';
import type { StatusPageDeps } from '../server/status-page/status-page.ts';
import type { DevUrl } from '../config/dev-url.ts';
import { type Context, connect, type Connected } from './context.ts';
import { createMetrics } from '../server/metrics/metrics.ts';
import { buildOperationsServer } from '../server/operations-server.ts';
import { createPressure, mostBodyBytes } from '../server/limits/pressure.ts';
import { WEBHOOK_LIMITS, type WebhookDeps } from '../server/webhook-server.ts';
import type { LoadedHandler } from './handlers/load-handlers.ts';
import { createLog, withDebugIfHeard } from './log.ts';
import { followClientCa, readClientTrust } from './client-ca.ts';
import { watchClockSkew } from './clock-skew.ts';
import { startConversions } from './conversions/start-conversions.ts';
import { openHandlers, startHandlers } from './handlers/handlers.ts';
import { lead, type LeaderParts } from './controller-process.ts';
import { createOwnLease } from './leadership/own-lease.ts';
import { startReplica, type ReplicaParts } from './webhook-process.ts';
import { followServingSecret } from './certificates/own-certificate.ts';
import { openTracing } from './tracing.ts';

const LEASE = 'gatehouse';

/** Content and access rules of the status page. */
export interface StatusPage {
  readonly deps: StatusPageDeps;
  /** Called once the API server has been reached. Until then the page asks visitors to retry. */
  readonly open: (context: Context, server: string) => void;
}

/** What a development session needs of the replica. */
export interface DevSessionParts {
  readonly replica: ReplicaParts;
  readonly listener: Pick<Listener, 'present'>;
  readonly admission: Pick<Visited, 'wasAsked'>;
  /** All of these pass before the session redirects the webhooks. */
  readonly checks: Readonly<Record<string, HealthCheck>>;
}

/** What the command line supplies. */
export interface ServeOptions {
  /** Called with `--status-page`. */
  readonly statusPage: (config: Config, log: Logger) => StatusPage;
  /** With `--dev-url`, runs instead of the leader election. */
  readonly devSession: (
    context: Context,
    url: DevUrl,
    parts: DevSessionParts,
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
  const tracing = await openTracing(process.env, { namespace: config.namespace, identity, log });
  const clients = await readClientTrust(config);
  const metrics = createMetrics(config.exemplars ? { exemplar: () => tracing?.exemplar() } : {});
  // Health and metrics first: probes need answers while the API server is unreachable too.
  const ready: Record<string, HealthCheck> = { start: () => 'the API server has not been reached yet' };
  const statusPage = config.statusPage ? options.statusPage(config, log) : undefined;
  const operations = buildOperationsServer({
    live: { ping: () => undefined },
    ...{ ready, metrics, statusPage: statusPage?.deps },
  });
  await operations.listen({ host: config.host, port: config.operationsPort });
  const ended = new AbortController();
  try {
    const handlers = await openHandlers(config.handlers, { metrics, log }, ended.signal);
    const connection = options.connection?.() ?? (await loadConnection(config));
    const connected = await connect(connection, { config, identity, metrics, tracing, log }, draining);
    statusPage?.open(connected.context, connection.server);
    await run(connected, { handlers, clients, devSession: options.devSession }, ready, draining);
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
  { context, urgent, isAway, close }: Connected,
  loaded: {
    readonly handlers: readonly LoadedHandler[];
    readonly clients: ClientTrust | undefined;
    readonly devSession: ServeOptions['devSession'];
  },
  ready: Record<string, HealthCheck>,
  draining: AbortSignal,
): Promise<void> {
  const { config, metrics, tracing, log } = context;
  const shutdown = new AbortController();
  const handlers = startHandlers(context, loaded.handlers, shutdown.signal);
  const replica = startReplica(context, handlers, shutdown.signal);
  const conversions = startConversions(context, handlers.converters, shutdown.signal);
  const eventLoop = watchEventLoop({ metrics }, shutdown.signal);
  const pressure = createPressure(
    { reviews: config.maxAdmissionReviews, bodyBytes: mostBodyBytes() },
    { eventLoop, metrics, log },
  );
  const admission = visited(replica.admission);
  const { clients } = loaded;
  const listener = createListener({
    host: config.host,
    port: config.port,
    limits: {
      ...WEBHOOK_LIMITS,
      connections: config.maxConnections,
      requestMs: config.connectionTimeoutMs,
    },
    gate: clients === undefined ? undefined : createClientAuthenticator(clients, { log, metrics }),
    deps: {
      ...admission,
      conversion: conversions.serving,
      // Another replica may still reach the API server.
      turnsAway: () => draining.aborted || isAway(),
      ...{ pressure, metrics, tracing, log: withDebugIfHeard(log) },
    },
    log,
  });
  if (clients !== undefined) void followClientCa(context, clients, listener, shutdown.signal);
  watchClockSkew(context, shutdown.signal);
  const checks = {
    ...replica.checks,
    conversions: conversions.check,
  } satisfies Record<string, HealthCheck>;
  Object.assign(ready, {
    start: () => undefined,
    certificate: () => listener.problem(new Date()),
    ...checks,
    'event-loop': eventLoop.problem,
    shutdown: () => (draining.aborted ? 'the process is ending' : undefined),
  } satisfies Record<string, HealthCheck>);

  let leading = Promise.resolve();
  if (config.devUrl === undefined) {
    followServingSecret(context, listener, shutdown.signal);
    leading = campaign(context, urgent, { replica, conversions }, shutdown.signal);
    // A failed election ends the process: a replica that can never lead would go unnoticed.
    await Promise.race([aborted(draining).then(() => sleep(config.drainDelayMs)), leading]);
  } else {
    // On a developer's machine: the cluster has its leader, and this process never becomes one.
    await loaded.devSession(context, config.devUrl, { replica, listener, admission, checks }, draining);
  }
  await listener.close();
  shutdown.abort(new Error('shutting down'));
  await leading;
  await close();
}

/** Takes part in the leader election, and leads when it wins, until the signal aborts. */
function campaign(
  context: Connected['context'],
  client: Connected['urgent'],
  parts: Omit<LeaderParts, 'ownLease'>,
  signal: AbortSignal,
): Promise<void> {
  const { config, identity, metrics, serverClock, rollbacks, log } = context;
  const { namespace, lease } = config;
  const ownLease = createOwnLease({ onRollback: rollbacks.tell, metrics, now: serverClock.now, log });
  const election = createElection({
    client,
    namespace,
    name: LEASE,
    identity,
    labels: ownStateLabels,
    notes: ownLease.notes,
    ...lease,
    log,
  });
  const onStart = async (leading: AbortSignal) => {
    metrics.leader(true);
    try {
      await lead(context, { ...parts, ownLease }, election.isLeader, leading);
    } finally {
      metrics.leader(false);
    }
  };
  return election.run({ onStart }, signal);
}

function drainOnSignal(log: Logger): AbortSignal {
  const draining = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.once(name, () => {
      log.info({ signal: name }, 'draining');
      draining.abort(new Error(name));
    });
  }
  return draining.signal;
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  signal.addEventListener('abort', () => {
    resolve(undefined);
  });
  if (signal.aborted) resolve(undefined);
  return promise;
}

type Admission = Pick<WebhookDeps, 'mutate' | 'validate'>;

export interface Visited extends Admission {
  /** Whether this process has received a review. */
  readonly wasAsked: () => boolean;
}

export function visited({ mutate, validate }: Admission): Visited {
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
  };
}
