/** The frame of each long-running process: health, metrics, handlers and the connection to the API server. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { SharedConfig } from '../config/config.ts';
import { loadConnection, type Connection } from '../kube/connection.ts';
import { buildOperationsServer, type HealthCheck } from '../server/operations-server.ts';
import { createMetrics } from '../server/metrics/metrics.ts';
import type { StatusPageOptions } from '../server/status-page/status-page.ts';
import { watchClockSkew } from '../runtime/clock-skew.ts';
import { type Connected, connect, type Context } from '../runtime/context.ts';
import { openHandlers, startHandlers, type Handlers } from '../runtime/handlers/handlers.ts';
import { createLog } from '../runtime/log.ts';
import { openTracing } from '../runtime/tracing.ts';

export interface StatusPage {
  readonly options: StatusPageOptions;
  /** Called once the API server has been reached. Until then the page asks visitors to retry. */
  readonly open: (context: Context, server: string) => void;
}

export interface ProcessOptions {
  readonly notices?: readonly string[] | undefined;
  /** Connects to the API server. Default: the one that the kubeconfig, the environment or the pod names. */
  readonly connection?: (() => Connection) | undefined;
  readonly logFile?: string | undefined;
  /** Aborts to stop the process. Default: on SIGTERM or SIGINT. */
  readonly draining?: AbortSignal | undefined;
}

interface Extras {
  readonly statusPage?: ((log: Logger) => StatusPage) | undefined;
  readonly exemplars?: boolean;
}

export interface Process<Settings extends SharedConfig = SharedConfig> {
  readonly connected: Connected<Settings>;
  readonly handlers: Handlers;
  /** Replaces the first readiness check, which fails until the API server has been reached. */
  readonly checkReadiness: (checks: Readonly<Record<string, HealthCheck>>) => void;
  /** Aborts when the process shall end: it finishes the requests that still arrive. */
  readonly draining: AbortSignal;
  readonly shutdown: AbortSignal;
}

/** Runs `work`, which ends after `draining` has aborted. Rejects when the process cannot start or continue. */
export async function runProcess<Settings extends SharedConfig>(
  config: Settings,
  options: ProcessOptions & Extras,
  work: (process: Process<Settings>) => Promise<void>,
): Promise<void> {
  const identity = config.identity ?? `${hostname()}-${randomBytes(3).toString('hex')}`;
  const log = createLog(config.logLevel, identity, options.logFile);
  for (const notice of options.notices ?? []) log.warn({ notice }, 'ignored a variable of the environment');
  const draining = options.draining ?? drainOnSignal(log);
  const tracing = await openTracing(process.env, config.namespace, identity, log);
  const metrics = createMetrics(options.exemplars === true ? () => tracing?.exemplar() : undefined);
  // Health and metrics first: probes need answers while the API server is unreachable too.
  const ready: Record<string, HealthCheck> = { start: () => 'the API server has not been reached yet' };
  const statusPage = options.statusPage?.(log);
  const live = { ping: () => undefined };
  const operations = buildOperationsServer(live, ready, metrics, statusPage?.options);
  await operations.listen({ host: config.host, port: config.operationsPort });
  const ended = new AbortController();
  try {
    const loaded = await openHandlers(config.handlers, { metrics, log }, ended.signal);
    const connection = options.connection?.() ?? (await loadConnection(config));
    const connected = await connect(connection, { config, identity, metrics, tracing, log }, draining);
    const { context, close } = connected;
    statusPage?.open(context, connection.server);
    const shutdown = new AbortController();
    watchClockSkew(context.serverClock, metrics, log, shutdown.signal);
    const checkReadiness: Process['checkReadiness'] = (checks) => {
      Object.assign(ready, {
        start: () => undefined,
        ...checks,
        shutdown: () => (draining.aborted ? 'the process is ending' : undefined),
      } satisfies Record<string, HealthCheck>);
    };
    try {
      const handlers = startHandlers(context, loaded, shutdown.signal);
      await work({ connected, handlers, checkReadiness, draining, shutdown: shutdown.signal });
    } finally {
      shutdown.abort(new Error('shutting down'));
      await close();
    }
  } catch (error) {
    if (!draining.aborted) throw error;
  } finally {
    ended.abort();
    await operations.close();
    await tracing?.close();
  }
  log.info({}, 'stopped');
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
