/** One replica against a cluster: the composition root. */
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Config } from '../config/config.ts';
import { createClient } from '../kube/client.ts';
import { systemClock } from '../kube/clock.ts';
import { loadConnection } from '../kube/connection.ts';
import { createDiscovery } from '../kube/discovery.ts';
import { createElection } from '../kube/lease.ts';
import { createRest, type RestObservation } from '../kube/rest.ts';
import { ownStateLabels } from '../controllers/authority.ts';
import { createListener } from '../server/listener.ts';
import { createMetrics, type Metrics } from '../server/metrics.ts';
import { buildOperationsServer } from '../server/operations-server.ts';
import { createLog } from './log.ts';
import type { Context } from './serve/context.ts';
import { lead } from './serve/leader.ts';
import { startReplica } from './serve/replica.ts';
import { followServingSecret } from './serve/serving-secret.ts';

const LEASE = 'gatehouse';
/** The release of Kubernetes 1.x that has `matchConditions` without a feature gate. */
const MATCH_CONDITIONS_SINCE = 28;

/** Runs until SIGTERM or SIGINT. Rejects when it cannot start. */
export async function serve(config: Config): Promise<void> {
  const identity = config.identity ?? `${hostname()}-${randomBytes(3).toString('hex')}`;
  const log = createLog(config.logLevel, identity);
  const shutdown = new AbortController();
  const draining = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.once(name, () => {
      log.info({ signal: name, drainMs: config.drainDelayMs }, 'draining');
      draining.abort(new Error(name));
    });
  }

  const metrics = createMetrics();
  const { context, urgent, close } = await connect(config, identity, metrics, log, draining.signal);
  const replica = startReplica(context, shutdown.signal);
  const listener = createListener({
    host: config.host,
    port: config.port,
    deps: { ...replica.admission, draining: () => draining.signal.aborted, metrics, log },
    log,
  });
  followServingSecret(context, listener, shutdown.signal);

  const operations = buildOperationsServer({
    live: { ping: () => undefined },
    ready: {
      certificate: () => listener.problem(new Date()),
      ...replica.checks,
      shutdown: () => (draining.signal.aborted ? 'the process is ending' : undefined),
    },
    metrics,
  });
  await operations.listen({ host: config.host, port: config.operationsPort });

  const election = createElection({
    client: urgent,
    namespace: config.namespace,
    name: LEASE,
    identity,
    labels: ownStateLabels,
    ...config.lease,
    log,
  });
  const leading = election.run(
    {
      onStart: async (signal) => {
        metrics.leader(true);
        try {
          await lead(context, replica, election.isLeader, signal);
        } finally {
          metrics.leader(false);
        }
      },
    },
    shutdown.signal,
  );

  await aborted(draining.signal);
  await sleep(config.drainDelayMs);
  await listener.close();
  shutdown.abort(new Error('shutting down'));
  await leading;
  await operations.close();
  await close();
  log.info({}, 'stopped');
}

async function connect(
  config: Config,
  identity: string,
  metrics: Metrics,
  log: Context['log'],
  signal: AbortSignal,
) {
  const { kubeconfig, context: contextName } = config;
  const connection = loadConnection({
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    ...(contextName === undefined ? {} : { context: contextName }),
  });
  const observe = ({ method, code, seconds }: RestObservation) => {
    metrics.apiRequest({ method, code: String(code) }, seconds);
  };
  const options = { connection, userAgent: `gatehouse/0.1.0 (${identity})`, observe };
  const rest = createRest(options);
  const discovery = createDiscovery(rest, systemClock);
  const { gitVersion, major, minor } = await discovery.serverVersion(signal);
  log.info({ server: connection.server, version: gitVersion, identity }, 'connected');
  const context: Context = {
    config,
    identity,
    rest,
    client: createClient(rest),
    discovery,
    capabilities: { matchConditions: major > 1 || minor >= MATCH_CONDITIONS_SINCE },
    metrics,
    log,
  };
  return { context, urgent: createClient(createRest({ ...options, urgent: true })), close: connection.close };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener(
      'abort',
      () => {
        resolve();
      },
      { once: true },
    );
    if (signal.aborted) resolve();
  });
}
