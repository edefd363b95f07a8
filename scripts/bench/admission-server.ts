/** One of the servers under comparison, in its own process. Forked and controlled by admission.ts. */
import type { Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';

import type { ServingCertificate } from '../../src/server/webhook-server.ts';
import { buildGatehouse } from './admission-gatehouse.ts';
import { answerCalls, pinTo } from './child.ts';

export interface Contents {
  readonly policies: number;
  readonly datacenters: number;
}

const functions = {
  start: async (
    server: 'floor' | 'gatehouse',
    core: number,
    certificate: ServingCertificate,
    contents: Contents,
  ) => {
    const pinned = pinTo(core);
    const { app, entry } =
      server === 'floor'
        ? { app: buildFloor(certificate), entry: 'servers' }
        : await buildGatehouse(certificate, contents);
    await app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = app.server.address() as AddressInfo; // the server listens on a TCP port
    return { port, entry, pinned };
  },
  /** `cpu` is the CPU time so far in milliseconds; `rss` is in bytes. */
  usage: () => {
    const { user, system } = process.cpuUsage();
    return { cpu: (user + system) / 1_000, rss: process.memoryUsage.rss() };
  },
};
export type AdmissionServer = typeof functions;

answerCalls(functions);

/** What the benchmark's reviews have and the floor reads. */
interface Review {
  readonly apiVersion: string;
  readonly request: { readonly uid: string };
}

const PATCH = [
  { op: 'add', path: '/spec/tier', value: 'standard' },
  { op: 'add', path: '/spec/power/limitWatts', value: 800 },
];

/** The least that a webhook does: it parses each review, and answers without any check. */
function buildFloor({ chain, key }: ServingCertificate): FastifyInstance<Server> {
  const app: FastifyInstance<Server> = Fastify({ logger: false, https: { cert: chain, key } });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
    done(null, JSON.parse(String(body)));
  });
  const answerWith = (path: string, decide: () => object) =>
    app.post(path, ({ body }, reply) => {
      const { apiVersion, request } = body as Review; // from the benchmark client
      void reply.type('application/json');
      const response = { uid: request.uid, allowed: true, ...decide() };
      return JSON.stringify({ apiVersion, kind: 'AdmissionReview', response });
    });
  answerWith('/validate/:entry', () => ({}));
  answerWith('/mutate/:entry', () => ({
    patch: Buffer.from(JSON.stringify(PATCH)).toString('base64'),
    patchType: 'JSONPatch',
  }));
  return app;
}
