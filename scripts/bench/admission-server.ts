/** One of the servers under comparison, in its own process. Forked and controlled by admission.ts. */
import type { AddressInfo } from 'node:net';

import type { ServingCertificate } from '../../src/server/listener/serving-certificate.ts';
import { buildFloor } from './admission-floor.ts';
import { buildGatehouse } from './admission-gatehouse.ts';
import { datacenterName } from './admission-reviews.ts';
import { answerQuestions } from './child.ts';
import { pinTo } from './pinning.ts';

/** The number of policies and objects that a server knows. */
export interface Contents {
  /** Policies in force: the policy for Servers, and others that do not match the reviews. */
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
      /** The last segment of the URL path of its webhooks. */
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
