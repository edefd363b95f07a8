import { isDeepStrictEqual } from 'node:util';
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { Agent, buildConnector } from 'undici';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { systemClock } from './clock.ts';
import { memoizeAsync } from '../json/memoize-async.ts';
import {
  createTokenFile,
  readCredentials,
  type ClusterAccess,
  type Credentials,
  type TlsMaterial,
  type Headers,
} from './rest/credentials.ts';
import { createRecovery } from './rest/recovery.ts';

export type Connection = ReturnType<typeof createConnection>;

/** With HTTP/1.1, 16 carry thousands of requests a second. More only wait in the fair queues of the API server. */
export const REQUEST_CONNECTIONS = 16;

/** The number of workers of the busiest controller. */
export const BACKGROUND_CONNECTIONS = 32;

const CONNECT_TIMEOUT_MS = 10_000;

/** Shorter than load balancers (60 s is common) and the API server (90 s) wait. */
const KEEP_ALIVE_MS = 50_000;

/** Like client-go's: probes detect a peer that vanished. */
const TCP_PROBE_MS = 30_000;

/** Certificate files rotate, and exec plugins issue short-lived tokens. */
const CREDENTIALS_MS = 10_000;

/** Connects to the cluster of the kubeconfig, the environment or the pod. @throws with the searched places if there is none */
export async function loadConnection(
  options: KubeconfigOptions = {},
  clock = systemClock,
): Promise<Connection> {
  const access = await findClusterAccess(options);
  const tokenFile =
    access.tokenFilePath === undefined ? undefined : createTokenFile(access.tokenFilePath, clock);
  return createConnection(access, () => readCredentials(access, tokenFile), clock);
}

export function createConnection(
  { server, namespace, proxyUrl }: Pick<ClusterAccess, 'server'> & Partial<ClusterAccess>,
  credentials: () => Promise<Credentials>,
  clock = systemClock,
) {
  const memo = memoizeAsync(credentials, String, { now: clock.monotonic, ttlMs: CREDENTIALS_MS });
  const read = () => memo.read('current');
  const direct = createConnector(async () => (await read()).tls);
  const connect = proxyUrl === undefined ? direct : throughProxy(direct, proxyUrl, CONNECT_TIMEOUT_MS);

  const dispatchers = {
    dispatcher: createPool(REQUEST_CONNECTIONS, connect),
    /** For requests that can wait, e.g. of controllers: the reads of admission reviews never queue behind them. */
    backgroundDispatcher: createPool(BACKGROUND_CONNECTIONS, connect),
    /** For watches: each occupies a connection for minutes, so they do not share connections with requests. */
    watchDispatcher: createPool(null, connect),
    /** For requests that must never queue behind others: a leader that renews its lease late loses it. */
    urgentDispatcher: createPool(1, connect),
  };
  return {
    ...dispatchers,
    server: server.replace(/\/+$/, ''),
    namespace,
    credentials: read,
    headers: async (): Promise<Headers> => (await read()).headers,
    /** The PEM certificates that verify the API server; undefined: the operating system's. */
    ca: async (): Promise<string | undefined> => {
      const { ca } = (await read()).tls;
      return ca === undefined ? undefined : [ca].flat().map(String).join('\n');
    },
    dropCredentials: (): void => memo.forget(() => true),
    recovery: createRecovery(clock),
    close: async (): Promise<void> => {
      // destroy, not close: close would wait for watches, which do not end on their own.
      await Promise.all(Object.values(dispatchers).map((one) => one.destroy()));
    },
  };
}

function createPool(connections: number | null, connect: buildConnector.connector): Agent {
  return new Agent({
    connections,
    connect,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Each caller sets its own timeout. The timeouts of undici would cut long watches.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

/** Reads the TLS material for each new connection, so that rotating a CA or client certificate works without a restart. */
function createConnector(tls: () => Promise<TlsMaterial>): buildConnector.connector {
  let current: { readonly material: TlsMaterial; readonly connect: buildConnector.connector } | undefined;
  const connectorFor = (material: TlsMaterial): buildConnector.connector => {
    // Reuse the connector while the material is unchanged: it caches TLS sessions.
    if (current === undefined || !isDeepStrictEqual(current.material, material))
      current = {
        material,
        connect: buildConnector({
          ...material,
          // Over HTTP/2, all requests would share one TCP connection, where one lost packet stalls them all.
          allowH2: false,
          timeout: CONNECT_TIMEOUT_MS,
          keepAlive: true,
          keepAliveInitialDelay: TCP_PROBE_MS,
        }),
      };
    return current.connect;
  };
  return (options, callback) => {
    tls().then(
      (material) => connectorFor(material)(options, callback),
      (error: unknown) => {
        callback(
          error instanceof Error ? error : new Error('could not read credentials', { cause: error }),
          null,
        );
      },
    );
  };
}

interface KubeconfigOptions {
  /** A kubeconfig file. Without it: $KUBECONFIG, the service account of the pod, ~/.kube/config, in this order. */
  readonly kubeconfig?: string | undefined;
  /** Default: the current context of the file. */
  readonly context?: string | undefined;
  /** Provides KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly serviceAccountDir?: string;
}

const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

async function findClusterAccess(options: KubeconfigOptions = {}): Promise<ClusterAccess> {
  const environment = options.environment ?? process.env;
  const serviceAccountDir = options.serviceAccountDir ?? SERVICE_ACCOUNT_DIR;
  const fromFiles = async (files: readonly string[]): Promise<ClusterAccess> => {
    // Imported on demand, because it costs 80 MiB and half a second, and pods do not use a kubeconfig.
    const { readKubeconfig } = await import('./rest/kubeconfig.ts');
    return readKubeconfig(files, options.context);
  };
  if (options.kubeconfig !== undefined) return await fromFiles([options.kubeconfig]);

  const listed = (environment.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '');
  if (listed.length > 0) {
    // Like kubectl, accept a list that contains files that do not exist.
    const existing = listed.filter((file) => existsSync(file));
    if (existing.length === 0) throw new Error(`no file of KUBECONFIG exists: ${listed.join(', ')}`);
    return await fromFiles(existing);
  }

  const host = environment.KUBERNETES_SERVICE_HOST;
  if (host !== undefined && existsSync(join(serviceAccountDir, 'token')))
    return serviceAccountAccess(host, environment.KUBERNETES_SERVICE_PORT ?? '443', serviceAccountDir);

  const home = join(environment.HOME ?? '/', '.kube', 'config');
  if (existsSync(home)) return await fromFiles([home]);
  throw new Error(
    `found no cluster: set KUBECONFIG, or write ${home}, or run in a pod with a service account token`,
  );
}

function serviceAccountAccess(host: string, port: string, dir: string): ClusterAccess {
  const namespaceFile = join(dir, 'namespace');
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : undefined,
    proxyUrl: undefined,
    tokenFilePath: join(dir, 'token'),
    impersonation: undefined,
    requestOptions: async () => ({ ca: await readFile(join(dir, 'ca.crt')) }),
  };
}

/** A tunnel through an HTTP proxy (RFC 9110 §9.3.6). For https, `connect` adds TLS in the tunnel. */
function throughProxy(
  connect: buildConnector.connector,
  proxyUrl: string,
  timeoutMs: number,
): buildConnector.connector {
  const proxy = new URL(proxyUrl);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')
    throw new Error(
      `proxy-url ${proxy.protocol}//${proxy.host} is not supported: use an http or https proxy`,
    );
  return (options, callback) => {
    const port = options.port === '' ? (options.protocol === 'https:' ? '443' : '80') : options.port;
    const authority = `${options.hostname}:${port}`;
    tunnel(proxy, authority, timeoutMs).then(
      (httpSocket) => {
        if (options.protocol === 'https:') connect({ ...options, httpSocket }, callback);
        else callback(null, httpSocket);
      },
      (cause: unknown) => {
        callback(new Error(`the proxy ${proxy.host} opened no tunnel to ${authority}`, { cause }), null);
      },
    );
  };
}

function tunnel(proxy: URL, authority: string, timeoutMs: number): Promise<Socket> {
  const user = [proxy.username, proxy.password].map(decodeURIComponent).join(':');
  const request = proxy.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const attempt = request({
      method: 'CONNECT',
      host: proxy.hostname.replace(/^\[|\]$/g, ''),
      port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : proxy.port,
      path: authority,
      agent: false,
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        host: authority,
        ...(user === ':' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(user).toString('base64')}` }),
      },
    });
    attempt.once('connect', (response, socket) => {
      if (response.statusCode === 200) {
        resolve(socket);
        return;
      }
      socket.destroy();
      reject(new Error(`it answered ${String(response.statusCode)}`));
    });
    attempt.once('error', reject);
    attempt.end();
  });
}
