/** The second port: health, readiness and metrics, in plain HTTP, for the kubelet and Prometheus; and the status page, if wanted. */
import Fastify, { type FastifyInstance } from 'fastify';

import { runChecks, type HealthChecks } from './health.ts';
import type { Metrics } from './metrics/metrics.ts';
import { prefersOpenMetrics } from './metrics/open-metrics.ts';
import { addStatusPage, type StatusPageDeps } from './status-page/status-page.ts';

export interface OperationsDeps {
  /** The process is up. A failure here has the kubelet restart it. */
  readonly live: HealthChecks;
  /** Requests may be sent here. */
  readonly ready: HealthChecks;
  readonly metrics: Pick<Metrics, 'contentType' | 'text' | 'openMetrics'>;
  /** Undefined: there is none. */
  readonly statusPage?: StatusPageDeps | undefined;
}

/** Wires the routes and listens to nothing. */
export function buildOperationsServer({ live, ready, metrics, statusPage }: OperationsDeps): FastifyInstance {
  const app = Fastify({ logger: false, forceCloseConnections: true });
  for (const [path, checks] of [
    ['/healthz', live],
    ['/readyz', ready],
  ] as const) {
    app.get<{ Querystring: { verbose?: string; exclude?: string | string[] } }>(path, (request, reply) => {
      const { verbose, exclude } = request.query;
      const report = runChecks(checks, exclude === undefined ? [] : [exclude].flat());
      void reply.type('text/plain; charset=utf-8').code(report.ok ? 200 : 503);
      // As the API server does: details when asked for, and always when something is wrong.
      return report.ok && verbose === undefined ? 'ok' : report.text;
    });
  }
  app.get('/metrics', async ({ headers }, reply) => {
    const open = prefersOpenMetrics(headers.accept) ? metrics.openMetrics : undefined;
    const { contentType, text } = open ?? metrics;
    void reply.type(contentType);
    return await text();
  });
  if (statusPage !== undefined) addStatusPage(app, statusPage);
  return app;
}
