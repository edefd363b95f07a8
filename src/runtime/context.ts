/** What the parts of a running replica share. */
import type { Logger } from 'pino';

import type { Config } from '../config/config.ts';
import type { Listeners } from './listeners.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Discovery } from '../kube/discovery.ts';
import type { Rest } from '../kube/rest.ts';
import type { ServerClock } from '../kube/server-clock.ts';
import type { Metrics } from '../server/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';

export interface Context {
  readonly config: Config;
  /** The name of this replica in the lease. */
  readonly identity: string;
  /** For watches, and for what the leader does: what can wait while the API server comes back. */
  readonly rest: Rest;
  /** For what somebody waits for. */
  readonly client: KubeClient;
  /** As these two, for reading what is compared: integers beyond 2^53 come as bigint. What it has read must not be written. */
  readonly exact: { readonly rest: Rest; readonly client: KubeClient };
  readonly discovery: Discovery;
  readonly capabilities: Capabilities;
  readonly serverClock: ServerClock;
  /** Told when the cluster went back in time: what was read before is to be read again. */
  readonly rollbacks: Listeners<[]>;
  readonly metrics: Metrics;
  /** Undefined: nobody asked for traces. */
  readonly tracing: Tracing | undefined;
  readonly log: Logger;
}

/** What this API server can do; found out once, at start. */
export interface Capabilities {
  readonly matchConditions: boolean;
}
