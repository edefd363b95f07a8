/** One of the servers under comparison, in its own process. Forked and controlled by admission.ts. */
import type { Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance } from 'fastify';

import type { ServingCertificate } from '../../src/server/webhook-server.ts';
import { buildGatehouse } from './admission-gatehouse.ts';
import { datacenterName } from './admission-reviews.ts';
import { answerQuestions } from './child.ts';
import { pinTo } from './pinning.ts';

export interface Contents {
  readonly policies: number;
  readonly datacenters: number;
}

export type Question =
  | {
      readonly kind: 'start';
      readonly server: 'floor' | 'gatehouse';
      readonly core: number;
      readonly certificate: ServingCertificate;
      readonly contents: Contents;
    }
  | { readonly kind: 'usage' };

export type Answer =
  | {
      readonly kind: 'started';
      readonly port: number;
      readonly entry: string;
      readonly pinned: boolean;
    }
  /** `cpu` is the CPU time so far in milliseconds; `rss` is in bytes. */
  | { readonly kind: 'usage'; readonly cpu: number; readonly rss: number };

answerQuestions(async (question: Question): Promise<Answer> => {
  switch (question.kind) {
    case 'start':
      return await start(question);
    case 'usage': {
      const { user, system } = process.cpuUsage();
      return { kind: 'usage', cpu: (user + system) / 1_000, rss: process.memoryUsage.rss() };
    }
  }
});

async function start({
  server,
  core,
  certificate,
  contents,
}: Extract<Question, { kind: 'start' }>): Promise<Answer> {
  const pinned = pinTo(core, process.pid);
  const { app, entry } =
    server === 'floor'
      ? { app: buildFloor(certificate, datacentersOf(contents)), entry: 'servers' }
      : await buildGatehouse(certificate, contents);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo; // the server listens on a TCP port
  return { kind: 'started', port, entry, pinned };
}

function datacentersOf({ datacenters }: Contents): ReadonlyMap<string, object> {
  return new Map(Array.from({ length: datacenters }, (_, index) => [datacenterName(index), {}]));
}

/** The fields of the benchmark's reviews. */
interface Review {
  readonly apiVersion: string;
  readonly request: {
    readonly uid: string;
    readonly object: {
      readonly spec: {
        readonly datacenter: string;
        readonly tier?: string;
        readonly units: number;
        readonly serial: string;
        readonly rack: { readonly position: number };
        readonly power: { readonly limitWatts?: number };
        readonly disks: readonly { readonly name: string; readonly sizeGiB: number }[];
      };
    };
  };
}

function buildFloor(
  { chain, key }: ServingCertificate,
  datacenters: ReadonlyMap<string, object>,
): FastifyInstance<Server> {
  const app: FastifyInstance<Server> = Fastify({ logger: false, https: { cert: chain, key } });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
    done(null, JSON.parse(String(body)));
  });
  app.post('/validate/:entry', (request, reply) => {
    const review = request.body as Review; // from the benchmark client
    const problem = problemOf(review.request.object, datacenters);
    void reply.type('application/json');
    return answer(
      review,
      problem === undefined ? { allowed: true } : { allowed: false, status: { code: 403, message: problem } },
    );
  });
  app.post('/mutate/:entry', (request, reply) => {
    const review = request.body as Review; // from the benchmark client
    const patch = Buffer.from(JSON.stringify(patchOf(review.request.object))).toString('base64');
    void reply.type('application/json');
    return answer(review, { allowed: true, patch, patchType: 'JSONPatch' });
  });
  return app;
}

function answer({ apiVersion, request }: Review, response: object): string {
  return JSON.stringify({ apiVersion, kind: 'AdmissionReview', response: { uid: request.uid, ...response } });
}

function problemOf(
  { spec }: Review['request']['object'],
  datacenters: ReadonlyMap<string, object>,
): string | undefined {
  if (!datacenters.has(spec.datacenter)) return `spec.datacenter: there is no ${spec.datacenter}`;
  if (spec.units + spec.rack.position > 48) return 'it does not fit into its rack';
  if (!Number.isInteger(spec.units) || spec.units < 1 || spec.units > 48) return 'spec.units: not 1 to 48';
  if (!Number.isInteger(spec.rack.position)) return 'spec.rack.position: not an integer';
  if (typeof spec.serial !== 'string' || spec.serial.length > 64) return 'spec.serial: not a short text';
  if (spec.disks.length > 4_096) return 'spec.disks: too many';
  for (const { name, sizeGiB } of spec.disks) {
    if (typeof name !== 'string' || name === '' || name.length > 63) return 'spec.disks: not a name';
    if (!Number.isInteger(sizeGiB) || sizeGiB < 1) return 'spec.disks: not a size';
  }
  return undefined;
}

function patchOf({ spec }: Review['request']['object']): readonly object[] {
  return [
    ...(spec.tier === undefined ? [{ op: 'add', path: '/spec/tier', value: 'standard' }] : []),
    ...(spec.power.limitWatts === undefined
      ? [{ op: 'add', path: '/spec/power/limitWatts', value: 800 }]
      : []),
  ];
}
