/** Lets nobody at the webhooks who does not show a certificate of the operator's choice. */
import type { TLSSocket } from 'node:tls';
import type { FastifyInstance, FastifyRequest, RouteGenericInterface } from 'fastify';
import type { Server } from 'node:https';

import { busy, failure, send, type Answer, type Reply } from './answer.ts';
import { clientOf, type Client, type ClientTrust } from './client-trust.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { Log } from '../log.ts';

export interface ClientGate {
  readonly trust: () => ClientTrust;
  /** From now on. Connections that are open are asked to begin again. */
  readonly change: (trust: ClientTrust) => void;
  /** Has `app` let in only whom this gate does. */
  readonly guard: (app: FastifyInstance<Server>) => void;
}

export interface ClientGateDeps {
  readonly log: Pick<Log, 'warn'>;
  readonly metrics: Pick<Metrics, 'refusedClient'>;
}

type Standing = Exclude<Client, { readonly kind: 'refused' }> & { readonly trust: ClientTrust };

/** Nobody fills the log by trying often: one line of a kind in this time, in milliseconds. */
const LOG_EVERY_MS = 10_000;
const CONVERSION_ROUTES: readonly unknown[] = ['/convert', '/convert/:definition'];

const NOTHING_SHOWN = 'it shows no certificate';

/** The connection is refused as long as the certificate is: to try again over this one is of no use. */
const NO_CERTIFICATE = failure(401, 'show a client certificate: Gatehouse runs with --client-ca');
/** The API server sends the review again, over a new connection, where its certificate is judged anew. */
const BEGIN_AGAIN = busy(
  'which client certificates are taken has changed here, or yours has ended: connect again',
);

export function createClientGate(first: ClientTrust, { log, metrics }: ClientGateDeps): ClientGate {
  let trust = first;
  const standings = new WeakMap<object, Standing>();
  const sayOnceInAWhile = throttled(LOG_EVERY_MS);

  const refuse = (
    socket: { readonly remoteAddress?: string | undefined },
    reason: Parameters<typeof metrics.refusedClient>[0],
    why: string,
  ) => {
    metrics.refusedClient(reason);
    sayOnceInAWhile(reason, () => {
      log.warn({ address: socket.remoteAddress, reason, why }, 'refused a client of the webhooks');
    });
  };
  const admits = (socket: TLSSocket): boolean => {
    const client = clientOf(socket, trust);
    if (client.kind === 'refused') {
      refuse(socket, client.reason, client.why);
      return false;
    }
    if (client.kind === 'anonymous' && trust.scope === 'all') {
      refuse(socket, 'no-certificate', NOTHING_SHOWN);
      return false;
    }
    standings.set(socket, { ...client, trust });
    return true;
  };

  /** Undefined: `request` may go on. */
  const objection = ({
    raw,
    routeOptions,
  }: FastifyRequest<RouteGenericInterface, Server>): Answer | undefined => {
    const standing = standings.get(raw.socket);
    if (standing?.kind === 'known')
      return standing.trust === trust && Date.now() < standing.until ? undefined : BEGIN_AGAIN;
    if (trust.scope === 'admission' && CONVERSION_ROUTES.includes(routeOptions.url)) return undefined;
    return NO_CERTIFICATE;
  };

  return {
    trust: () => trust,
    change: (next) => {
      trust = next;
    },
    guard: (app) => {
      handOver(app.server, admits);
      app.addHook('onRequest', (request, reply: Reply, done) => {
        const answer = objection(request);
        if (answer === undefined) {
          done();
          return;
        }
        if (answer === NO_CERTIFICATE) refuse(request.raw.socket, 'no-certificate', NOTHING_SHOWN);
        void send(reply.header('connection', 'close'), answer);
      });
    },
  };
}

/**
 * Has the HTTP of `server` hear of connections that `admits` likes, and of no other. To destroy one is not enough: what came with
 * the last bytes of the handshake would still be read.
 */
function handOver(server: Server, admits: (socket: TLSSocket) => boolean): void {
  const listeners = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket) => {
    if (admits(socket)) for (const listener of listeners) Reflect.apply(listener, server, [socket]);
    else socket.destroy();
  });
}

/** Calls `say` unless it has been called for the same `kind` within `everyMs`. */
function throttled(everyMs: number): (kind: string, say: () => void) => void {
  const last = new Map<string, number>();
  return (kind, say) => {
    const now = performance.now();
    if (now - (last.get(kind) ?? -Infinity) < everyMs) return;
    last.set(kind, now);
    say();
  };
}
