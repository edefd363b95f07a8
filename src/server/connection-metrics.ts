import { Counter, Gauge, type Registry } from 'prom-client';

const REFUSALS = ['no-certificate', 'untrusted', 'name'] as const;

export interface ConnectionMetrics {
  /** `count` is asked at each scrape. */
  readonly webhookConnections: (count: () => number) => void;
  /** A connection was closed to make room for another one. */
  readonly crowdedOut: () => void;
  /** A client without a certificate that is taken. */
  readonly refusedClient: (why: (typeof REFUSALS)[number]) => void;
  /** The file of --client-ca has changed and could not be used: the one before it still is. */
  readonly clientCaFailed: () => void;
}

export function createConnectionMetrics(registers: Registry[]): ConnectionMetrics {
  let connections = () => 0;
  new Gauge({
    name: 'gatehouse_webhook_connections',
    help: 'Connections to the webhook port that are open.',
    registers,
    collect() {
      this.set(connections());
    },
  });
  const crowdedOut = new Counter({
    name: 'gatehouse_webhook_connections_crowded_out_total',
    help: 'Connections to the webhook port that were closed because there were more than --max-connections.',
    registers,
  });
  const refused = new Counter({
    name: 'gatehouse_clients_refused_total',
    help: 'Clients of the webhook port that showed no certificate of --client-ca and --client-names, by reason.',
    labelNames: ['reason'],
    registers,
  });
  for (const reason of REFUSALS) refused.inc({ reason }, 0); // from 0 to 1 is a rise that Prometheus sees
  const failed = new Counter({
    name: 'gatehouse_client_ca_read_errors_total',
    help: 'Times that the file of --client-ca was read and could not be used.',
    registers,
  });
  return {
    webhookConnections: (count) => {
      connections = count;
    },
    crowdedOut: () => {
      crowdedOut.inc();
    },
    refusedClient: (reason) => {
      refused.inc({ reason });
    },
    clientCaFailed: () => {
      failed.inc();
    },
  };
}
