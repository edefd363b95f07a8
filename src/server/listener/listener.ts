/** The webhook listener: it starts with the first serving certificate and takes each later one without a restart. */
import { X509Certificate } from 'node:crypto';

import { messageOf } from '../../json/abort.ts';
import type { ClientTrust } from './client-certificates.ts';
import {
  swapCertificate,
  buildWebhookServer,
  type ServingCertificate,
  type WebhookServer,
  type WebhookServerOptions,
} from '../webhook-server.ts';

/** The port is in use, or the process lacks permission to open it. Another attempt may succeed. */
export class PortUnavailable extends Error {}

export type Listener = ReturnType<typeof createListener>;

export function createListener(
  { host, port }: { readonly host: string; readonly port: number },
  options: WebhookServerOptions,
) {
  const { clients, log } = options;
  let app: WebhookServer | undefined;
  let presented: { readonly certificate: ServingCertificate; readonly notAfter: Date } | undefined;
  let obstacle = 'there is no serving certificate yet';
  let closed = false;
  let last: Promise<void> = Promise.resolve();

  const present = async (certificate: ServingCertificate): Promise<void> => {
    const { chain, key } = certificate;
    if (closed || (presented?.certificate.chain === chain && presented.certificate.key === key)) return;
    const notAfter = new Date(new X509Certificate(chain).validTo);
    if (app === undefined) {
      const server = buildWebhookServer(certificate, options);
      await server.listen({ host, port }).catch((cause: unknown) => {
        obstacle = `cannot listen on port ${port}: ${messageOf(cause)}`;
        throw new PortUnavailable(obstacle, { cause });
      });
      app = server;
    } else {
      swapCertificate(app.server, certificate, clients?.trust().ca);
    }
    presented = { certificate, notAfter };
    log.info({ notAfter: notAfter.toISOString() }, 'presenting serving certificate');
  };
  /** Runs in sequence: a second certificate must not open the port while the first one's server is still opening it. */
  const inSequence = (act: () => void | Promise<void>): Promise<void> => {
    const next = last.then(act);
    last = next.catch(() => undefined);
    return next;
  };

  return {
    /** The first certificate opens the port. @throws PortUnavailable, or if key and certificate do not match */
    present: (certificate: ServingCertificate) => inSequence(() => present(certificate)),
    /** Accepts clients by `trust` from now on. Needs a listener that authenticates clients. */
    trust: (trust: ClientTrust) =>
      inSequence(() => {
        if (app !== undefined && presented !== undefined)
          swapCertificate(app.server, presented.certificate, trust.ca);
        clients?.change(trust);
      }),
    problem: (now: Date): string | undefined => {
      if (presented === undefined) return obstacle;
      return now < presented.notAfter
        ? undefined
        : `the serving certificate ended at ${presented.notAfter.toISOString()}`;
    },
    close: async (): Promise<void> => {
      closed = true;
      await last;
      await app?.close();
    },
  };
}
