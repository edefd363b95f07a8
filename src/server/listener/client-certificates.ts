/** Who a client of the webhook port is, by the certificate that it shows. */
import { X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { FastifyInstance, FastifyRequest, RouteGenericInterface } from 'fastify';
import type { Server } from 'node:https';
import { busy, failure, send, type Answer, type Reply } from '../answer.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Log } from '../../log.ts';

/** Whom the port lets in. */
export interface ClientTrust {
  /** PEM: each of these CAs vouches for clients. */
  readonly ca: string;
  /** Subject common names and DNS names, one of which a client has to bear; none: whoever has a certificate of these CAs. */
  readonly names: readonly string[];
  /**
   * What takes a certificate. With `admission` conversions do not: kube-apiserver shows none when it has objects converted,
   * whatever `--admission-control-config-file` says.
   */
  readonly scope: 'admission' | 'all';
}

export type Client =
  | { readonly kind: 'anonymous' }
  /** `until`: when its certificate ends, in milliseconds since 1970. */
  | { readonly kind: 'known'; readonly until: number }
  | { readonly kind: 'refused'; readonly reason: 'untrusted' | 'name'; readonly why: string };

/** @throws with a sentence when `text` is not one CA certificate or more, in PEM, each with its issuers up to the root. */
export function readClientCa(text: string): string {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  const begun = text.split('-----BEGIN CERTIFICATE-----').length - 1;
  if (begun === 0) throw new Error('there is no certificate in it (PEM)');
  if (begun !== blocks.length) throw new Error('a certificate in it has no end');
  const certificates = blocks.map(parse);
  for (const [index, certificate] of certificates.entries()) {
    if (!certificate.ca) throw new Error(`certificate ${index + 1} in it is not that of a CA`);
    // Node's servers trust no chain that does not end in a root, whatever `allowPartialTrustChain` says.
    if (!certificates.some((issuer) => certificate.checkIssued(issuer)))
      throw new Error(`the issuer of certificate ${index + 1} is missing in it: add those up to the root`);
  }
  return `${blocks.join('\n')}\n`;
}

function parse(block: string, index: number): X509Certificate {
  try {
    return new X509Certificate(block);
  } catch (cause) {
    throw new Error(`certificate ${index + 1} in it cannot be read`, { cause });
  }
}

/** Judges a client whose handshake has just been finished, by a server that asks for certificates and takes any. */
export function clientOf(socket: TLSSocket, { names }: ClientTrust): Client {
  // OpenSSL takes a session that goes on for verified, also where nothing was shown when it began, and by the CAs of that day.
  if (socket.isSessionReused()) return untrusted('it resumes a session');
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return { kind: 'anonymous' };
  if (!socket.authorized) return untrusted(reasonOf(socket.authorizationError));
  // Node gives a list when there are several: no name that could be relied on.
  const { CN: commonName } = socket.getPeerCertificate().subject as { readonly CN?: unknown };
  const bears = (name: string): boolean =>
    name === commonName || certificate.checkHost(name, { subject: 'never', wildcards: false }) !== undefined;
  if (names.length > 0 && !names.some(bears)) {
    return { kind: 'refused', reason: 'name', why: `its certificate is for ${String(commonName)}` };
  }
  return { kind: 'known', until: certificate.validToDate.getTime() };
}

const untrusted = (why: string): Client => ({ kind: 'refused', reason: 'untrusted', why });

/** Node's types say Error; it is the code, such as CERT_HAS_EXPIRED. */
const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Lets nobody at the webhooks who does not show a certificate of the operator's choice. */
export interface ClientAuthenticator {
  readonly trust: () => ClientTrust;
  /** From now on. Connections that are open are asked to begin again. */
  readonly change: (trust: ClientTrust) => void;
  /** Has `app` let in only whom this gate does. */
  readonly guard: (app: FastifyInstance<Server>) => void;
}

export interface ClientAuthenticatorDeps {
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

export function createClientAuthenticator(
  first: ClientTrust,
  { log, metrics }: ClientAuthenticatorDeps,
): ClientAuthenticator {
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
