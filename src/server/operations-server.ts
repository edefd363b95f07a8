/** The operations port, plain HTTP: health, readiness and metrics for the kubelet and Prometheus; the status page. */
import Fastify, { type FastifyInstance } from 'fastify';

import { runChecks, type HealthChecks } from './health.ts';
import type { Metrics } from './metrics/metrics.ts';
import { prefersOpenMetrics } from './metrics/open-metrics.ts';
import { addStatusPage, type StatusPageOptions } from './status-page/status-page.ts';

/** Registers the routes. The caller calls `listen`. If a check of `live` fails, the kubelet restarts the process. */
export function buildOperationsServer(
  live: HealthChecks,
  ready: HealthChecks,
  metrics: Pick<Metrics, 'contentType' | 'text' | 'openMetrics'>,
  statusPage?: StatusPageOptions,
): FastifyInstance {
  const app = Fastify({ logger: false, forceCloseConnections: true });
  for (const [path, checks] of [
    ['/healthz', live],
    ['/readyz', ready],
  ] as const) {
    app.get<{ Querystring: { verbose?: string; exclude?: string | string[] } }>(path, (request, reply) => {
      const { verbose, exclude } = request.query;
      const report = runChecks(checks, exclude === undefined ? [] : [exclude].flat());
      void reply.type('text/plain; charset=utf-8').code(report.ok ? 200 : 503);
      // As in the API server: return details on request, and always after a failure.
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
