/** A cluster as a person at a terminal reaches it: as the user of the kubeconfig. */
import { createClient, type KubeClient } from '../kube/client.ts';
import { systemClock } from '../kube/clock.ts';
import { loadConnection } from '../kube/connection.ts';
import { createDiscovery, type Discovery, type ServerVersion } from '../kube/discovery.ts';
import { createRest, type RestOptions } from '../kube/rest.ts';
import { createServerClock } from '../kube/server-clock.ts';
import { VERSION } from '../config/version.ts';

export interface UserCluster {
  readonly server: string;
  readonly client: KubeClient;
  readonly discovery: Discovery;
  readonly version: ServerVersion;
  /** As the API server has it: windows end by its clock, not by that of the user. */
  readonly now: () => Date;
  /** By how much our clock is ahead of the API server's, in milliseconds; undefined when it did not say. */
  readonly skewMs: () => number | undefined;
  readonly close: () => Promise<void>;
}

/** A person waits for it. */
const FIRST_ANSWER_MS = 10_000;

/**
 * @param command for the API server's audit log
 * @param parse reads the JSON of answers; default: JSON.parse
 * @throws when there is no cluster, or it does not answer
 */
export async function connectToCluster(
  flags: { readonly kubeconfig?: string | undefined; readonly context?: string | undefined },
  command: string,
  parse?: RestOptions['parse'],
): Promise<UserCluster> {
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
    const version = await discovery.serverVersion(AbortSignal.timeout(FIRST_ANSWER_MS));
    return {
      server: connection.server,
      client: createClient(rest),
      discovery,
      version,
      now: serverClock.now,
      skewMs: serverClock.skewMs,
      close: connection.close,
    };
  } catch (error) {
    await connection.close();
    throw new Error(`could not reach the API server ${connection.server}`, { cause: error });
  }
}
