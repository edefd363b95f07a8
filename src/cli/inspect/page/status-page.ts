/** The status page of a replica: the API server decides who may see it, and a reading of the cluster is its content. */
import type { Logger } from 'pino';

import type { ControllersConfig } from '../../../config/config.ts';
import { mayUserVisit, reviewToken } from '../../../kube/access.ts';
import type { Context } from '../../../runtime/context.ts';
import type { StatusPage } from '../../../processes/process.ts';
import { audienceOf } from '../../../server/status-page/credentials.ts';
import type { View } from '../../../server/status-page/document.ts';
import { createAccessCheck } from '../../../server/status-page/access.ts';
import { createSharedView } from '../../../server/status-page/shared-view.ts';
import { readCluster } from '../read-cluster/read-cluster.ts';
import { valueOf } from '../read-cluster/reading.ts';
import { statusReport } from '../status/report/status-report.ts';
import { statusContent } from './status-content.ts';

const TIMEOUT_MS = 5_000;
/** All visitors together read the cluster at most this often. */
const MIN_INTERVAL_MS = 1_000;
/** Limits log lines while the API server does not respond and visitors reload the page. */
const WARN_INTERVAL_MS = 60_000;

type Api = Pick<Context, 'client' | 'discovery' | 'serverClock'> & { readonly server: string };

export function createStatusPage(config: ControllersConfig, log: Logger): StatusPage {
  const now = () => performance.now();
  let api: Api | undefined;
  let warnedAt = -Infinity;
  const connected = (): Api => {
    if (api === undefined) throw new Error('the replica is not connected to the API server yet');
    return api;
  };
  const options = { timeoutMs: TIMEOUT_MS };
  const checkAccess = createAccessCheck(
    (token) => reviewToken(connected().client, token, audienceOf(token), options),
    (subject) => mayUserVisit(connected().client, subject, { path: '/status', verb: 'get' }, options),
    (err) => {
      if (now() - warnedAt < WARN_INTERVAL_MS) return;
      warnedAt = now();
      log.warn({ err }, 'could not check who may see the status page');
    },
    now,
  );
  const view = createSharedView(() => readView(connected(), config), MIN_INTERVAL_MS, now);
  return {
    options: { checkAccess, view, now, log },
    open: ({ client, discovery, serverClock }, server) => {
      api = { client, discovery, serverClock, server };
    },
  };
}

async function readView(
  { client, discovery, serverClock, server }: Api,
  config: ControllersConfig,
): Promise<View> {
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
    content: statusContent(report, valueOf(readings.windows) ?? [], valueOf(readings.policies) ?? []),
    checkedAt: report.checkedAt,
  };
}
