/** Each connection sends the next request when it has the response. Forked and controlled by admission.ts. */
import { connect, type TLSSocket } from 'node:tls';

import { createReviews, type Size } from './admission-reviews.ts';
import { answerCalls, pinTo } from './child.ts';
import { percentile } from './figures.ts';

interface Run extends Span {
  readonly port: number;
  readonly ca: string;
  readonly serverName: string;
  readonly path: string;
  readonly size: Size;
  readonly expected: string;
  readonly connections: number;
}

export interface Span {
  readonly milliseconds?: number;
  readonly requests?: number;
}

let reviews: Readonly<Record<Size, readonly string[]>> | undefined;

const functions = {
  prepare: (core: number, datacenters: number) => {
    pinTo(core);
    reviews = {
      '3 KB': createReviews('3 KB', datacenters),
      '100 KB': createReviews('100 KB', datacenters),
    };
  },
  run: (asked: Run) => run(asked, reviews?.[asked.size] ?? []),
};
export type Load = typeof functions;

answerCalls(functions);

async function run(asked: Run, bodies: readonly string[]) {
  const { connections, milliseconds = Infinity, requests: most = Infinity } = asked;
  const requests = bodies.map((body) => requestOf(asked, body));
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(asked)));
  const latencies: number[] = [];
  const before = process.cpuUsage();
  const started = performance.now();
  let sent = 0;
  const next = () => {
    if (sent >= most || performance.now() - started >= milliseconds) return undefined;
    sent += 1;
    return requests[sent % requests.length];
  };
  await Promise.all(sockets.map((socket) => ask(socket, asked, next, latencies)));
  const took = performance.now() - started;
  const { user, system } = process.cpuUsage(before);
  for (const socket of sockets) socket.destroy();
  return {
    requests: latencies.length,
    milliseconds: took,
    /** Milliseconds from the last byte of the request to the last byte of the response. */
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
    /** CPU time of the client in milliseconds. If it is close to the elapsed time, the client is the bottleneck. */
    cpu: (user + system) / 1_000,
  };
}

function requestOf({ path, serverName }: Run, body: string): Buffer {
  return Buffer.from(
    `POST ${path}?timeout=10s HTTP/1.1\r\nhost: ${serverName}\r\nuser-agent: kube-apiserver-admission\r\n` +
      'accept: application/json, */*\r\ncontent-type: application/json\r\naccept-encoding: gzip\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

async function open({ port, ca, serverName }: Run): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ca, servername: serverName });
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve).once('error', reject);
  });
  socket.setNoDelay();
  return socket;
}

/** Runs until there is no next request. @throws Error when a response is not the expected one */
function ask(
  socket: TLSSocket,
  { expected }: Run,
  next: () => Buffer | undefined,
  latencies: number[],
): Promise<void> {
  return new Promise((resolve, reject) => {
    let asked = 0;
    let received: Buffer = Buffer.alloc(0);
    const send = () => {
      const request = next();
      if (request === undefined) {
        resolve();
        return;
      }
      asked = performance.now();
      socket.write(request);
    };
    socket.on('data', (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const answer = wholeAnswer(received);
      if (answer === undefined) return;
      latencies.push(performance.now() - asked);
      if (!answer.startsWith('HTTP/1.1 200') || !answer.includes(expected)) {
        reject(new Error(`unexpected: ${answer.slice(0, 1_000)}`));
        return;
      }
      received = Buffer.alloc(0);
      send();
    });
    socket.once('error', reject).once('close', () => {
      reject(new Error('the server closed the connection'));
    });
    send();
  });
}

const HEAD_END = '\r\n\r\n';

/** Undefined while the response is incomplete. */
function wholeAnswer(received: Buffer): string | undefined {
  const text = received.toString('latin1');
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? NaN);
  return received.length >= headEnd + HEAD_END.length + length ? text : undefined;
}
