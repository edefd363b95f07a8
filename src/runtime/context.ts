/** The parts that everything in a running replica shares, and how it connects to the API server. */
import type { Logger } from 'pino';
import type { SharedConfig } from '../config/config.ts';
import { type Listeners, createListeners } from './listeners.ts';
import { createClient, type KubeClient } from '../kube/client.ts';
import { createDiscovery, refuseOlder, type Discovery } from '../kube/discovery.ts';
import { readOwnUser } from '../kube/access.ts';
import { createRest, confined, type Rest, type RestObservation } from '../kube/rest.ts';
import { type ServerClock, createServerClock, systemClock } from '../kube/clock.ts';
import type { Namespaces } from './namespaces.ts';
import type { Metrics } from '../server/metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseJson } from '../json/json.ts';
import type { Connection } from '../kube/connection.ts';
import { VERSION } from '../config/version.ts';
import { traceRequests } from './tracing.ts';

/** @typeParam Settings those of this process: code that all processes run sees only what all of them have */
export interface Context<Settings extends SharedConfig = SharedConfig> {
  readonly config: Settings;
  readonly identity: string;
  /** For watches and controllers, which can wait while the API server restarts. */
  readonly rest: Rest;
  /** For admission reviews and other callers that wait for an answer. */
  readonly client: KubeClient;
  /** Integers beyond 2^53 are bigint. Objects that are read this way must not be written. */
  readonly exact: { readonly rest: Rest; readonly client: KubeClient };
  readonly discovery: Discovery;
  /** Where Gatehouse reads and writes namespaced objects; undefined: everywhere. */
  readonly namespaces: Namespaces;
  readonly serverClock: ServerClock;
  /** The PEM certificates that verify the API server; undefined: the operating system's certificates. */
  readonly apiServerCa: () => Promise<string | undefined>;
  /** The user name that the API server gives this process; undefined: unknown. */
  readonly userName: (signal: AbortSignal) => Promise<string | undefined>;
  /** Called when the cluster was rolled back: everything must be read again. */
  readonly rollbacks: Listeners<[]>;
  readonly metrics: Metrics;
  readonly tracing: Tracing | undefined;
  readonly log: Logger;
}

export type Connected<Settings extends SharedConfig = SharedConfig> = Awaited<
  ReturnType<typeof connect<Settings>>
>;

/** In milliseconds. A restarting API server is back within a minute; a container restart has a longer backoff. */
const RETRY_MS = 2_000;
/** For admission reviews, in milliseconds: it leaves time for two retries at other replicas. */
const PROMPT_MS = 3_000;

/** @throws the reason of `signal` on abort; an error that says what to do when the API server is too old */
export async function connect<Settings extends SharedConfig>(
  connection: Connection,
  parts: Pick<Context<Settings>, 'config' | 'identity' | 'metrics' | 'tracing' | 'log'>,
  signal: AbortSignal,
) {
  const { identity, metrics, tracing, log } = parts;
  const { namespaces } = parts.config;
  reportOutages(connection, log);
  const serverClock = createServerClock();
  const observe = ({ method, code, seconds }: RestObservation) => {
    metrics.apiRequest({ verb: method, code: String(code) }, seconds);
  };
  const options = {
    connection,
    userAgent: `gatehouse/${VERSION} (${identity})`,
    observe,
    trace: tracing === undefined ? undefined : traceRequests(tracing, connection.server),
    onDate: serverClock.observe,
  };
  const within = (rest: Rest) => (namespaces === undefined ? rest : confined(rest, namespaces));
  const prompt = within(createRest({ ...options, prompt: true, timeoutMs: PROMPT_MS }));
  const rest = within(createRest({ ...options, background: true }));
  const discovery = createDiscovery(prompt, systemClock);
  const { server } = connection;
  const warn = (err: unknown) => log.warn({ err, server }, 'could not read the version of the API server');
  const version = await untilAnswered(() => discovery.serverVersion(signal), warn, signal);
  refuseOlder(version);
  log.info({ server, version: version.gitVersion, identity }, 'connected');
  const client = createClient(prompt);
  const exactly = { ...options, parse: parseJson };
  const exact = {
    rest: within(createRest({ ...exactly, background: true })),
    client: createClient(within(createRest({ ...exactly, prompt: true, timeoutMs: PROMPT_MS }))),
  };
  const context: Context<Settings> = {
    ...parts,
    rest,
    client,
    exact,
    discovery,
    namespaces,
    serverClock,
    apiServerCa: connection.ca,
    userName: (waiting) => readOwnUser(client, waiting),
    rollbacks: createListeners(),
  };
  return {
    context,
    /** For the lease: never waits behind other requests. */
    urgent: createClient(createRest({ ...options, urgent: true })),
    isAway: connection.recovery.isAway,
    close: connection.close,
  };
}

/** Logs each outage once. `createLog` lowers the level of the errors that the outage causes. */
function reportOutages({ recovery, server }: Connection, log: Pick<Logger, 'info' | 'warn'>): void {
  recovery.onOutage({
    lost: ({ message }) => log.warn({ server, problem: message }, 'cannot reach the API server'),
    back: (afterMs) =>
      log.info({ server, seconds: Math.round(afterMs / 100) / 10 }, 'the API server answers again'),
  });
}

/** @throws the reason of `signal` on abort */
export async function untilAnswered<T>(
  ask: () => Promise<T>,
  onError: (error: unknown) => void,
  signal: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      onError(error);
      await sleep(RETRY_MS, undefined, { signal });
    }
  }
}
