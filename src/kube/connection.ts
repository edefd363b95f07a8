import { isDeepStrictEqual } from 'node:util';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import { systemClock, type Clock } from './clock.ts';
import { findClusterAccess, type KubeconfigOptions } from './rest/cluster-access.ts';
import {
  createTokenFile,
  readCredentials,
  type Credentials,
  type TlsMaterial,
  type Headers,
} from './rest/credentials.ts';
import { throughProxy } from './rest/proxy.ts';
import { createRecovery, type Recovery } from './rest/recovery.ts';

export interface Connection {
  /** The base URL; may have a path. */
  readonly server: string;
  /** Of the context or the pod. */
  readonly namespace: string | undefined;
  /** For requests: `REQUEST_CONNECTIONS` keep-alive connections. */
  readonly dispatcher: Dispatcher;
  /** For watches: each occupies a connection for minutes, so they have no share in the others'. */
  readonly watchDispatcher: Dispatcher;
  /** For what can wait, as the work of controllers: however much of it there is, what reviews read does not queue behind it. */
  readonly backgroundDispatcher: Dispatcher;
  /** For what must never queue behind other requests: a lease that is renewed late is a lost one. */
  readonly urgentDispatcher: Dispatcher;
  /** The headers that authenticate a request. */
  readonly headers: () => Promise<Headers>;
  /** After a 401: ask for credentials anew. */
  readonly dropCredentials: () => void;
  /** Spreads what can wait when the API server has been away. */
  readonly recovery: Recovery;
  readonly close: () => Promise<void>;
}

/**
 * 16 connections for requests. One carries one request at a time (HTTP/1.1), about 5 ms each, hence some thousands a second, and
 * still two hundred when the API server is so busy that each takes 80; more at once would only wait in its own fair queues, and
 * each costs a TLS handshake.
 */
export const REQUEST_CONNECTIONS = 16;
/** As many as the busiest controller has workers: with an API server so busy that each request takes half a second, 60 a second. */
export const BACKGROUND_CONNECTIONS = 32;

/** A burst of new connections and a slow proxy fit in; a dead address is noticed within one retry. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Idle connections go before load balancers (60 s is common) and the API server (90 s) drop them under us. */
const KEEP_ALIVE_MS = 50_000;
/** TCP probes, as client-go: they find a peer that vanished without a word. */
const TCP_PROBE_MS = 30_000;
/** Credentials are looked at again this often: certificate files rotate, exec plugins hand out short tokens. */
const CREDENTIALS_MS = 10_000;

export interface ConnectionParts {
  readonly server: string;
  readonly namespace?: string | undefined;
  readonly proxyUrl?: string | undefined;
  readonly credentials: () => Promise<Credentials>;
  readonly clock?: Clock;
}

export interface LoadConnectionOptions extends KubeconfigOptions {
  readonly clock?: Clock;
}

/**
 * A connection to the cluster that the kubeconfig, the environment or the pod names.
 * @throws when there is none; the message says where it was looked for.
 */
export async function loadConnection(options: LoadConnectionOptions = {}): Promise<Connection> {
  const { clock = systemClock } = options;
  const { server, namespace, proxyUrl, tokenFilePath, ...access } = await findClusterAccess(options);
  const tokenFile = tokenFilePath === undefined ? undefined : createTokenFile(tokenFilePath, clock);
  return createConnection({
    server,
    namespace,
    proxyUrl,
    credentials: () => readCredentials({ ...access, tokenFile }),
    clock,
  });
}

export function createConnection(parts: ConnectionParts): Connection {
  const { server, namespace, proxyUrl, clock = systemClock } = parts;
  const { read, drop } = cached(parts.credentials, clock);
  const direct = createConnector(async () => (await read()).tls);
  const connect = proxyUrl === undefined ? direct : throughProxy(direct, proxyUrl, CONNECT_TIMEOUT_MS);

  const dispatcher = createPool(REQUEST_CONNECTIONS, connect);
  const backgroundDispatcher = createPool(BACKGROUND_CONNECTIONS, connect);
  const watchDispatcher = createPool(null, connect);
  const urgentDispatcher = createPool(1, connect);
  return {
    server: server.replace(/\/+$/, ''),
    namespace,
    dispatcher,
    backgroundDispatcher,
    watchDispatcher,
    urgentDispatcher,
    headers: async () => (await read()).headers,
    dropCredentials: drop,
    recovery: createRecovery(clock),
    close: async () => {
      // destroy, not close: close waits for watches, which do not end by themselves.
      const all = [dispatcher, backgroundDispatcher, watchDispatcher, urgentDispatcher];
      await Promise.all(all.map((one) => one.destroy()));
    },
  };
}

function createPool(connections: number | null, connect: buildConnector.connector): Agent {
  return new Agent({
    connections,
    connect,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Deadlines are kept by the caller of each request; these would only cut long watches.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** Looks at the TLS material for each new connection, so that a rotated CA or client certificate needs no restart. */
function createConnector(tls: () => Promise<TlsMaterial>): buildConnector.connector {
  let current: { readonly material: TlsMaterial; readonly connect: buildConnector.connector } | undefined;
  const connectorFor = (material: TlsMaterial): buildConnector.connector => {
    // Kept while nothing changed: it remembers TLS sessions.
    if (current === undefined || !isDeepStrictEqual(current.material, material)) {
      current = {
        material,
        connect: buildConnector({
          ...material,
          // Go's TLS server would choose HTTP/2: one TCP connection for all, where one lost packet stalls everything.
          allowH2: false,
          timeout: CONNECT_TIMEOUT_MS,
          keepAlive: true,
          keepAliveInitialDelay: TCP_PROBE_MS,
        }),
      };
    }
    return current.connect;
  };
  return (options, callback) => {
    tls().then(
      (material) => {
        connectorFor(material)(options, callback);
      },
      (error: unknown) => {
        callback(
          error instanceof Error ? error : new Error('could not read credentials', { cause: error }),
          null,
        );
      },
    );
  };
}

/** One look serves all who ask within `CREDENTIALS_MS`; a failed look is not remembered. */
function cached(
  look: () => Promise<Credentials>,
  clock: Clock,
): { readonly read: () => Promise<Credentials>; readonly drop: () => void } {
  let last: { readonly at: number; readonly credentials: Promise<Credentials> } | undefined;
  const read = (): Promise<Credentials> => {
    const now = clock.monotonic();
    if (last === undefined || now - last.at >= CREDENTIALS_MS) {
      const credentials = look();
      const mine = { at: now, credentials };
      last = mine;
      credentials.catch(() => {
        if (last === mine) last = undefined;
      });
    }
    return last.credentials;
  };
  return {
    read,
    drop: () => {
      last = undefined;
    },
  };
}
