/** A TLS server on every loopback address, in its own process. Forked and controlled by prober.ts. */
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';

import { answerQuestions } from './child.ts';

export interface Question {
  readonly chain: string;
  readonly privateKey: string;
}

export interface Answer {
  readonly kind: 'started';
  readonly port: number;
}

answerQuestions(async ({ chain, privateKey }: Question): Promise<Answer> => {
  const server = createServer({ cert: chain, key: privateKey }, (socket) =>
    socket.on('error', () => undefined).resume(),
  );
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  return { kind: 'started', port: (server.address() as AddressInfo).port }; // it listens to TCP
});
