import { X509Certificate } from 'node:crypto';
import type { Server } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { FastifyInstance } from 'fastify';

import { messageOf } from '../../json/abort.ts';
import { busy, failure, send, type Answer, type Reply } from '../answer.ts';
import type { ClientRefusal, Metrics } from '../metrics/metrics.ts';
import type { Log } from '../../log.ts';

export interface ClientTrust {
  readonly ca: string;
  /** One of these common names or DNS names is needed; empty: any certificate of these CAs. */
  readonly names: readonly string[];
  /** kube-apiserver never sends a client certificate for conversions. */
  readonly scope: 'admission' | 'all';
}

type Client =
  | { readonly kind: 'anonymous' }
  | { readonly kind: 'known'; readonly until: number }
  | { readonly kind: 'refused'; readonly reason: 'untrusted' | 'name'; readonly why: string };

export function readClientCa(text: string): string {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  const begun = text.match(/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/g)?.length ?? 0;
  if (begun === 0) throw new Error('there is no certificate in it (PEM)');
  if (begun !== blocks.length)
    throw new Error('a certificate in it is truncated, or its label is not CERTIFICATE');
  const certificates = blocks.map(parse);
  for (const [index, certificate] of certificates.entries()) {
    if (!certificate.ca) throw new Error(`certificate ${index + 1} in it is not a CA certificate`);
    // Node servers reject a chain without a root, even with `allowPartialTrustChain`.
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

function clientOf(socket: TLSSocket, { names }: ClientTrust): Client {
  // OpenSSL reports a resumed session as verified, even if its first handshake had no certificate or used CAs that have
  // changed since.
  if (socket.isSessionReused()) return untrusted('it resumes a session');
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return { kind: 'anonymous' };
  if (!socket.authorized) return untrusted(messageOf(socket.authorizationError));
  // For several common names, Node returns a list. Such a list matches no name.
  const { CN: commonName } = socket.getPeerCertificate().subject as { readonly CN?: unknown };
  const hasName = (name: string): boolean =>
    name === commonName || certificate.checkHost(name, { subject: 'never', wildcards: false }) !== undefined;
  if (names.length > 0 && !names.some(hasName))
    return { kind: 'refused', reason: 'name', why: `its certificate is for ${String(commonName)}` };
  return { kind: 'known', until: certificate.validToDate.getTime() };
}

const untrusted = (why: string): Client => ({ kind: 'refused', reason: 'untrusted', why });

/** Logs one refusal of each kind per interval, in milliseconds, so that repeated attempts cannot fill the log. */
const LOG_EVERY_MS = 10_000;
const CONVERSION_ROUTES: readonly unknown[] = ['/convert', '/convert/:definition'];

/** Closes the connection: a retry over it would fail for the same reason. */
const NO_CERTIFICATE = failure(401, 'a client certificate is required: Gatehouse runs with --client-ca');
const RECONNECT = busy(
  'the trusted client CAs have changed, or the client certificate has expired: connect again',
);

export type ClientAuthenticator = ReturnType<typeof createClientAuthenticator>;

export function createClientAuthenticator(
  first: ClientTrust,
  metrics: Pick<Metrics, 'refusedClient'>,
  log: Pick<Log, 'warn'>,
) {
  let trust = first;
  const accepted = new WeakMap<object, { readonly client: Client; readonly trust: ClientTrust }>();
  const loggedAt = new Map<ClientRefusal, number>();

  const refuse = (
    { remoteAddress: address }: Pick<Socket, 'remoteAddress'>,
    reason: ClientRefusal,
    why = 'it shows no certificate',
  ): void => {
    metrics.refusedClient(reason);
    const now = performance.now();
    if (now - (loggedAt.get(reason) ?? -Infinity) < LOG_EVERY_MS) return;
    loggedAt.set(reason, now);
    log.warn({ address, reason, why }, 'refused a client of the webhooks');
  };
  const accepts = (socket: TLSSocket): boolean => {
    const client = clientOf(socket, trust);
    if (client.kind === 'refused') refuse(socket, client.reason, client.why);
    else if (client.kind === 'anonymous' && trust.scope === 'all') refuse(socket, 'no-certificate');
    else {
      accepted.set(socket, { client, trust });
      return true;
    }
    return false;
  };
  const refusalOf = (socket: Socket, route: string | undefined): Answer | undefined => {
    const known = accepted.get(socket);
    if (known?.client.kind === 'known')
      return known.trust === trust && Date.now() < known.client.until ? undefined : RECONNECT;
    if (trust.scope === 'admission' && CONVERSION_ROUTES.includes(route)) return undefined;
    refuse(socket, 'no-certificate');
    return NO_CERTIFICATE;
  };

  return {
    trust: () => trust,
    change: (next: ClientTrust): void => {
      trust = next;
    },
    guard: (app: FastifyInstance<Server>): void => {
      filterConnections(app.server, accepts);
      app.addHook('onRequest', ({ raw, routeOptions }, reply: Reply, done) => {
        const refusal = refusalOf(raw.socket, routeOptions.url);
        if (refusal === undefined) done();
        else void send(reply.header('connection', 'close'), refusal);
      });
    },
  };
}

/** Destroying the socket is not enough: Node would still parse the bytes that arrived with the end of the handshake. */
function filterConnections(server: Server, accepts: (socket: TLSSocket) => boolean): void {
  const listeners = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket) => {
    if (accepts(socket)) for (const listener of listeners) Reflect.apply(listener, server, [socket]);
    else socket.destroy();
  });
}
