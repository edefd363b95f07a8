/** The operations port, plain HTTP: health, readiness and metrics for the kubelet and Prometheus; the status page. */
import Fastify, { type FastifyInstance } from 'fastify';

import { memoizeAsync } from '../json/memoize-async.ts';
import { limitConnections } from './webhook-server.ts';
import type { Metrics } from './metrics/metrics.ts';
import { prefersOpenMetrics } from './metrics/open-metrics.ts';
import { addStatusPage, type StatusPageOptions } from './status-page/status-page.ts';

/** Limits on connections and on the time that clients take, in milliseconds. Every pod of the cluster may be a client. */
export const OPERATIONS_LIMITS = {
  /** Connections at a time: more than the status page can occupy, so that probes are answered. */
  connections: 256,
  requestMs: 10_000,
  /** Between two requests: longer than the interval between two scrapes. */
  idleMs: 75_000,
  /** Without a byte in either direction. Open status pages receive events every few seconds. */
  stalledMs: 60_000,
};

export function buildOperationsServer(
  live: HealthChecks,
  ready: HealthChecks,
  metrics: Pick<Metrics, 'contentType' | 'text' | 'openMetrics'>,
  statusPage?: StatusPageOptions,
  limits = OPERATIONS_LIMITS,
): FastifyInstance {
  const app = Fastify({
    logger: false,
    forceCloseConnections: true,
    http: {
      headersTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(1_000, limits.requestMs),
    },
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.idleMs,
    connectionTimeout: limits.stalledMs,
  });
  // Above the limit, the oldest unfinished request is cut off.
  limitConnections(app.server, limits.connections, 0, () => undefined);
  app.removeAllContentTypeParsers(); // only the form of the status page has a body
  for (const [path, checks] of [
    ['/healthz', live],
    ['/readyz', ready],
  ] as const)
    app.get<{ Querystring: { verbose?: string; exclude?: string | string[] } }>(path, (request, reply) => {
      const { verbose, exclude } = request.query;
      const report = runChecks(checks, exclude === undefined ? [] : [exclude].flat());
      void reply.type('text/plain; charset=utf-8').code(report.ok ? 200 : 503);
      return report.ok && verbose === undefined ? 'ok' : report.text;
    });
  const texts = memoizeAsync(
    ({ text }: { readonly contentType: string; readonly text: () => Promise<string> }) => text(),
    ({ contentType }) => contentType,
    { now: () => performance.now(), ttlMs: Infinity, ttlOf: () => 0 },
  );
  app.get('/metrics', async ({ headers }, reply) => {
    const open = prefersOpenMetrics(headers.accept) ? metrics.openMetrics : undefined;
    const format = open ?? metrics;
    void reply.type(format.contentType);
    return await texts.read(format);
  });
  if (statusPage !== undefined) addStatusPage(app, statusPage);
  return app;
}

export type HealthCheck = () => string | undefined;

export type HealthChecks = Readonly<Record<string, HealthCheck>>;

/** A new policy whose targets are still being listed must not remove all replicas from their Service at the same time. */
export function untilPassed(check: HealthCheck): HealthCheck {
  let passed = false;
  return () => {
    if (passed) return undefined;
    const problem = check();
    passed = problem === undefined;
    return problem;
  };
}

/** The API server's format: one line per check, `[+]name ok` or `[-]name failed: why`. */
function runChecks(checks: HealthChecks, excluded: readonly string[] = []) {
  const included = Object.entries(checks).filter(([name]) => !excluded.includes(name));
  const lines = included.map(([name, check]) => {
    const problem = check();
    return problem === undefined ? `[+]${name} ok` : `[-]${name} failed: ${problem}`;
  });
  const ok = lines.every((line) => line.startsWith('[+]'));
  return { ok, text: [...lines, ok ? 'check passed' : 'check failed', ''].join('\n') };
}
