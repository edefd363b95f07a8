/** The webhook listener: it starts with the first serving certificate and takes each later one without a restart. */
import { X509Certificate } from 'node:crypto';
import { Server } from 'node:https';
import type { FastifyInstance } from 'fastify';

import type { Log } from './log.ts';
import { swapCertificate, type ServingCertificate } from './serving-certificate.ts';
import { buildWebhookServer, type WebhookDeps } from './webhook-server.ts';

export interface Listener {
  /**
   * Presents `certificate` from now on. The first one opens the port.
   * @throws when key and certificate do not belong together; what was presented before still is.
   */
  readonly present: (certificate: ServingCertificate) => Promise<void>;
  /** Why no client can be served; undefined when one can. */
  readonly problem: (now: Date) => string | undefined;
  /** Lets what is under way finish, then closes. */
  readonly close: () => Promise<void>;
}

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly deps: WebhookDeps;
  readonly log: Log;
}

export function createListener({ host, port, deps, log }: ListenerOptions): Listener {
  let app: FastifyInstance | undefined;
  let presented: { readonly certificate: ServingCertificate; readonly notAfter: Date } | undefined;

  return {
    present: async (certificate) => {
      if (presented?.certificate.chain === certificate.chain && presented.certificate.key === certificate.key)
        return;
      const notAfter = new Date(new X509Certificate(certificate.chain).validTo);
      if (app === undefined) {
        const server = buildWebhookServer(certificate, deps);
        await server.listen({ host, port });
        app = server;
      } else if (app.server instanceof Server) {
        swapCertificate(app.server, certificate);
      }
      presented = { certificate, notAfter };
      log.info({ notAfter: notAfter.toISOString() }, 'presenting serving certificate');
    },
    problem: (now) => {
      if (presented === undefined) return 'there is no serving certificate yet';
      return now < presented.notAfter
        ? undefined
        : `the serving certificate ended at ${presented.notAfter.toISOString()}`;
    },
    close: async () => {
      await app?.close();
    },
  };
}
