/** The connection of a command to a cluster, as the user of the kubeconfig. */
import { createClient } from '../kube/rest-client.ts';
import { loadConnection } from '../kube/connection.ts';
import { createDiscovery } from '../kube/discovery.ts';
import { createRest, type RestOptions } from '../kube/rest.ts';
import { createServerClock, systemClock } from '../kube/clock.ts';
import { VERSION } from '../config/version.ts';

export type UserCluster = Awaited<ReturnType<typeof connectToCluster>>;

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * @param command appears in the user agent, and so in the audit log of the API server
 * @param parse parses JSON responses; default: JSON.parse
 * @throws when the kubeconfig has no cluster, or the API server does not respond
 */
export async function connectToCluster(
  flags: { readonly kubeconfig?: string | undefined; readonly context?: string | undefined },
  command: string,
  parse?: RestOptions['parse'],
) {
  const connection = await loadConnection(flags);
  const serverClock = createServerClock();
  const rest = createRest({
    connection,
    userAgent: `gatehouse/${VERSION} (${command})`,
    ...(parse === undefined ? {} : { parse }),
    onDate: serverClock.observe,
  });
  try {
    const discovery = createDiscovery(rest, systemClock);
    const version = await discovery.serverVersion(AbortSignal.timeout(CONNECT_TIMEOUT_MS));
    return {
      server: connection.server,
      client: createClient(rest),
      discovery,
      version,
      /** By the clock of the API server, which decides when windows and certificates expire. */
      now: serverClock.now,
      /** How far the local clock is ahead of the API server, in milliseconds; undefined when responses have no date. */
      skewMs: serverClock.skewMs,
      close: connection.close,
    };
  } catch (error) {
    await connection.close();
    throw new Error(`could not reach the API server ${connection.server}`, { cause: error });
  }
}
