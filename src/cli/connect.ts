/** The connection of a command to a cluster, as the user of the kubeconfig. */
import { ApiError } from '../kube/api-error.ts';
import { createClient } from '../kube/client.ts';
import { loadConnection, type Connection } from '../kube/connection.ts';
import { createDiscovery, refuseOlder } from '../kube/discovery.ts';
import { createRest, type RestOptions } from '../kube/rest.ts';
import { createServerClock, systemClock } from '../kube/clock.ts';
import { VERSION } from '../config/version.ts';
import type { ClusterFlags } from './terminal/options.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** Ctrl+C ends the process instead. */
export const NEVER: AbortSignal = new AbortController().signal;

/** @param command for the user agent, which the audit log contains */
export async function withCluster<T>(
  flags: ClusterFlags,
  command: string,
  use: (cluster: UserCluster) => Promise<T>,
  { parse, anyVersion = false }: Pick<RestOptions, 'parse'> & { readonly anyVersion?: boolean } = {},
): Promise<T> {
  const connection = await loadConnection(flags);
  try {
    const cluster = await reach(connection, command, parse);
    if (!anyVersion) refuseOlder(cluster.version);
    return await use(cluster);
  } finally {
    await connection.close();
  }
}

export type UserCluster = Awaited<ReturnType<typeof reach>>;

async function reach(connection: Connection, command: string, parse: RestOptions['parse']) {
  const { server } = connection;
  const serverClock = createServerClock();
  const rest = createRest({
    connection,
    userAgent: `gatehouse/${VERSION} (${command})`,
    ...(parse === undefined ? {} : { parse }),
    onDate: serverClock.observe,
  });
  const discovery = createDiscovery(rest, systemClock);
  const version = await discovery
    .serverVersion(AbortSignal.timeout(CONNECT_TIMEOUT_MS))
    .catch((cause: unknown) => {
      const refused = cause instanceof ApiError && cause.code === 401;
      throw refused
        ? new Error(
            `the API server ${server} refused the credentials of the kubeconfig (401): log in again, or choose another --context`,
          )
        : new Error(`could not reach the API server ${server}`, { cause });
    });
  return {
    server,
    client: createClient(rest),
    discovery,
    version,
    /** By the clock of the API server, which decides when windows and certificates expire. */
    now: serverClock.now,
    /** How far the local clock is ahead of the API server, in milliseconds; undefined without dates in responses. */
    skewMs: serverClock.skewMs,
  };
}
