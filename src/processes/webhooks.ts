/** What answers the API server: in webhook replicas, and where both processes are one. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import type { WebhookConfig } from '../config/config.ts';
import {
  type ClientTrust,
  createClientAuthenticator,
  readClientCa,
} from '../server/listener/client-certificates.ts';
import { createLoadShedding, maxBodyBytes, watchEventLoop } from '../server/limits/load-shedding.ts';
import type { HealthCheck } from '../server/operations-server.ts';
import { createListener, type Listener } from '../server/listener/listener.ts';
import type { Context } from '../runtime/context.ts';
import { WEBHOOK_LIMITS, type WebhookServerOptions } from '../server/webhook-server.ts';
import { withDebugIfEnabled } from '../runtime/log.ts';
import { startConversions } from '../runtime/conversions/start-conversions.ts';
import { type ReplicaParts, startReplica } from './replica.ts';
import type { Process } from './process.ts';
import { messageWithCauses } from '../json/abort.ts';
import { services } from '../kube/well-known.ts';
import { watch } from '../runtime/watch.ts';
import { missingService } from '../runtime/webhooks/installation.ts';

export type Webhooks = ReturnType<typeof startWebhooks>;

export function startWebhooks(
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
    metrics,
    tracing,
    log: withDebugIfEnabled(log),
  });
  if (clients !== undefined) void followClientCa(context, clients, listener, shutdown);
  /** All of these pass before a development session redirects the webhooks. */
  const checks = { ...replica.checks, ...conversions.checks } satisfies Record<string, HealthCheck>;
  // Load must not fail a check: if a replica leaves its Service, the others get its load and fail as well.
  const serviceProblem = watchOwnService(context, shutdown);
  const certificate: HealthCheck = () => {
    const problem = listener.problem(new Date());
    return problem === undefined ? undefined : (serviceProblem() ?? problem);
  };
  return { replica, conversions, listener, admission, checks, certificate };
}

/** Resolves when the signal has aborted, and requests in flight have had time to end. */
export async function drained(draining: AbortSignal, delayMs: number): Promise<void> {
  if (!draining.aborted) await once(draining, 'abort');
  await sleep(delayMs);
}

type Admission = Pick<WebhookServerOptions, 'mutate' | 'validate'>;

function recordVisits({ mutate, validate }: Admission) {
  let asked = false;
  const recording =
    (decide: Admission['mutate']): Admission['mutate'] =>
    (...question) => {
      asked = true;
      return decide(...question);
    };
  return { mutate: recording(mutate), validate: recording(validate), wasAsked: () => asked };
}

/** The interval of controller-runtime for certificates, in milliseconds. File watches miss volume updates. */
const READ_EVERY_MS = 10_000;

/** @throws Error with a message for users when the file cannot be read, or is not a bundle of CAs */
export async function readClientTrust({
  clients,
}: Pick<WebhookConfig, 'clients'>): Promise<ClientTrust | undefined> {
  const { ca: file, names, scope } = clients;
  if (file === undefined) return undefined;
  try {
    return { ca: readClientCa(await readFile(file, 'utf8')), names, scope };
  } catch (cause) {
    throw new Error(`--client-ca ${file} cannot be used`, { cause });
  }
}

/** Reads the file at intervals until `signal` aborts. If it is unusable, the previous CAs stay trusted. */
async function followClientCa(
  { config, metrics, log }: Pick<Context<WebhookConfig>, 'config' | 'metrics' | 'log'>,
  first: ClientTrust,
  listener: Pick<Listener, 'trust'>,
  signal: AbortSignal,
): Promise<void> {
  let known = first.ca;
  let reported: string | undefined;
  while (!signal.aborted) {
    try {
      const next = await readClientTrust(config);
      if (next !== undefined && next.ca !== known) {
        await listener.trust(next);
        known = next.ca;
        log.info({}, 'webhook clients are verified with the new --client-ca');
      }
      reported = undefined;
    } catch (err) {
      metrics.clientCaFailed();
      const message = messageWithCauses(err);
      if (message !== reported)
        log.error({ err }, 'could not use --client-ca: the previous CAs stay trusted');
      reported = message;
    }
    await sleep(READ_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function watchOwnService(context: Context, signal: AbortSignal) {
  const { namespace, service } = context.config;
  const options = { resource: services, namespace, name: service, metadataOnly: true };
  const { hasSynced, store } = watch(context, options, signal);
  return (): string | undefined =>
    hasSynced() && store.list().length === 0 ? missingService({ namespace, service }) : undefined;
}
