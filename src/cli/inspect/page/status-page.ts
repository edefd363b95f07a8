/** What the status page is told: by the API server, who may look; by `gatehouse status`, what there is to see. */
import type { Logger } from 'pino';

import type { Config } from '../../../config/config.ts';
import { mayUserVisit, type AccessSubject } from '../../../kube/access.ts';
import { reviewToken } from '../../../kube/token-review.ts';
import { audienceOf } from '../../../server/status-page/credentials.ts';
import type { View } from '../../../server/status-page/document.ts';
import { createGate } from '../../../server/status-page/gate.ts';
import { createSharedView } from '../../../server/status-page/shared-view.ts';
import type { StatusPage } from '../../../runtime/serve.ts';
import { statusContent } from './status-content.ts';
import { readCluster } from '../status/read-cluster.ts';
import { valueOf } from '../status/reading.ts';
import { statusReport } from '../status/report/status-report.ts';
import type { Context } from '../../../runtime/context.ts';

/** A person waits. */
const TIMEOUT_MS = 5_000;
/** However many look, the cluster is not looked at more often than that. */
const LEAST_MS = 1_000;
/** Whoever visits an unready API server every few seconds need not fill the log. */
const WARN_EVERY_MS = 60_000;

type Api = Pick<Context, 'client' | 'discovery' | 'serverClock'> & { readonly server: string };

export function createStatusPage(config: Config, log: Logger): StatusPage {
  const now = () => performance.now();
  let api: Api | undefined;
  let warnedAt = -Infinity;
  const reached = (): Api => {
    if (api === undefined) throw new Error('the API server has not been reached yet');
    return api;
  };
  const options = { timeoutMs: TIMEOUT_MS };
  const gate = createGate<AccessSubject>({
    authenticate: (token) => reviewToken(reached().client, token, audienceOf(token), options),
    mayLook: (subject) => mayUserVisit(reached().client, subject, { path: '/status', verb: 'get' }, options),
    onUndecided: (err) => {
      if (now() - warnedAt < WARN_EVERY_MS) return;
      warnedAt = now();
      log.warn({ err }, 'the API server did not say who may see the status page');
    },
    now,
  });
  const look = () => lookAt(reached(), config);
  return {
    deps: { gate, view: createSharedView({ look, now, leastMs: LEAST_MS }), now, log },
    open: ({ client, discovery, serverClock }, server) => {
      api = { client, discovery, serverClock, server };
    },
  };
}

async function lookAt({ client, discovery, serverClock, server }: Api, config: Config): Promise<View> {
  const { namespace, compat } = config;
  const [version, readings] = await Promise.all([
    discovery.serverVersion(AbortSignal.timeout(TIMEOUT_MS)).catch(() => undefined),
    readCluster(client, { namespace, compat }),
  ]);
  const report = statusReport(readings, {
    ...{ server, namespace, compat, now: serverClock.now() },
    version: version?.gitVersion ?? 'unknown',
  });
  return {
    subtitle: `${namespace} · ${server} · Kubernetes ${report.version}`,
    content: statusContent(report, valueOf(readings.windows) ?? []),
    checkedAt: report.checkedAt,
  };
}
