/** The server replaces its serving certificate under load, without an effect on clients. */
import { X509Certificate } from 'node:crypto';
import { Agent } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { caBundle } from '../../src/pki/authority/bundle.ts';
import { firstAuthority, prepared, rotated } from '../support/pki/fixtures.ts';
import { createListener, type Listener } from '../../src/server/listener/listener.ts';
import type { ServingCertificate } from '../../src/server/listener/serving-certificate.ts';
import { freePort } from '../support/processes.ts';
import { judgeAdmission } from '../support/review-checker.ts';
import { openRaw, post, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import {
  certificateOf,
  governedBy,
  recordingOptions,
  serversPolicy,
  type Endpoint,
} from '../support/webhook-server.ts';

/** Two successive generations, with a bundle that trusts both as during a rotation. */
async function twoGenerations() {
  const now = new Date();
  const old = await firstAuthority(now);
  const next = await rotated(old, now);
  return { old, next, ca: caBundle(await prepared(next, now), now) };
}

async function startListener(): Promise<{
  readonly listener: Listener;
  readonly port: number;
  readonly messages: () => unknown[];
}> {
  const port = await freePort();
  const { options, recorded } = recordingOptions(governedBy([serversPolicy]));
  const listener = createListener({ host: '127.0.0.1', port }, options);
  onTestFinished(() => listener.close());
  return { listener, port, messages: () => recorded.lines.map(({ msg }) => msg) };
}

const serialOf = ({ chain }: ServingCertificate) => new X509Certificate(chain).serialNumber;

/** The serial number of the certificate on a new connection. */
async function presented(endpoint: Endpoint): Promise<string> {
  const { socket } = await openRaw(endpoint);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

test('no review fails at 200 reviews a second, or at the maximum of the machine, with half of them on new connections', async () => {
  const { old, next, ca } = await twoGenerations();
  const { listener, port } = await startListener();
  const endpoint = { port, ca };
  await listener.present(await certificateOf(old));
  const held = await openRaw(endpoint);

  const agent = new Agent({ keepAlive: true, maxSockets: 10 });
  onTestFinished(() => {
    agent.destroy();
  });
  const reviews: Promise<void>[] = [];
  const failures: unknown[] = [];
  const ask = async (kept: boolean) => {
    const body = reviewOf({ uid: `uid-${reviews.length}` });
    const answer = await post(endpoint, VALIDATE, body, { agent: kept ? agent : false });
    expect(answer.status).toBe(200);
    expect(judgeAdmission('validate', body, answer.body).allowed).toBe(true);
  };
  const load = setInterval(() => {
    for (const kept of [true, false])
      reviews.push(
        ask(kept).catch((error: unknown) => {
          failures.push(error);
        }),
      );
  }, 10);

  for (const authority of [next, old, next, old, next]) {
    await sleep(350);
    const certificate = await certificateOf(authority);
    await listener.present(certificate);
    expect(await presented(endpoint)).toBe(serialOf(certificate));
  }
  await sleep(350);
  clearInterval(load);
  await Promise.all(reviews);
  expect(failures).toEqual([]);
  console.log(`${reviews.length} reviews while the certificate was swapped five times`);
  expect(reviews.length).toBeGreaterThan(50);

  // This connection is older than the first swap.
  held.socket.write(rawPost(VALIDATE, reviewOf({ uid: 'held' })));
  expect(await held.received(/held/)).toMatch(/^HTTP\/1\.1 200 /);
  held.socket.destroy();
});

test('a key that does not match its certificate is refused, and the server still presents the previous certificate', async () => {
  const { old, ca } = await twoGenerations();
  const { listener, port } = await startListener();
  const [first, second] = [await certificateOf(old), await certificateOf(old)];
  await listener.present(first);
  const connection = await openRaw({ port, ca });

  await expect(listener.present({ chain: second.chain, key: first.key })).rejects.toThrow(
    /key values mismatch/,
  );
  await expect(listener.present({ chain: 'no certificate', key: first.key })).rejects.toThrow(/PEM/);
  expect(await presented({ port, ca })).toBe(serialOf(first));
  connection.socket.write(rawPost(VALIDATE, reviewOf()));
  expect(await connection.received(/a-uid/)).toContain('"allowed":true');
  connection.socket.destroy();

  await listener.present(second);
  expect(await presented({ port, ca })).toBe(serialOf(second));
});

test('a first pair that does not match opens no port, and the next valid pair does', async () => {
  const { old, ca } = await twoGenerations();
  const { listener, port } = await startListener();
  const [first, second] = [await certificateOf(old), await certificateOf(old)];
  await expect(listener.present({ chain: first.chain, key: second.key })).rejects.toThrow(
    /key values mismatch/,
  );
  expect(listener.problem(new Date())).toBe('there is no serving certificate yet');
  await expect(presented({ port, ca })).rejects.toThrow(/ECONNREFUSED/);
  await listener.present(first);
  expect(await presented({ port, ca })).toBe(serialOf(first));
});

test('the server presents the later of two simultaneous certificates', async () => {
  const { old, ca } = await twoGenerations();
  const { listener, port, messages } = await startListener();
  const [first, second] = [await certificateOf(old), await certificateOf(old)];
  await Promise.all([listener.present(first), listener.present(second), listener.present(second)]);
  expect(await presented({ port, ca })).toBe(serialOf(second));
  expect(messages()).toEqual(['presenting serving certificate', 'presenting serving certificate']);
});

test('Knative TLS options: TLS 1.1 is refused before and after a swap', async () => {
  const { old, ca } = await twoGenerations();
  const { listener, port } = await startListener();
  const tls11 = { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
  for (const certificate of [await certificateOf(old), await certificateOf(old)]) {
    await listener.present(certificate);
    await expect(openRaw({ port, ca }, tls11)).rejects.toThrow(/alert protocol version/);
  }
});

test('OPA TestReconcilerSync: context-done: a certificate that arrives after the shutdown opens no port', async () => {
  const { old, ca } = await twoGenerations();
  const { listener, port } = await startListener();
  await listener.close();
  await listener.present(await certificateOf(old));
  await expect(presented({ port, ca })).rejects.toThrow(/ECONNREFUSED/);
});

test('a port in use is an error, and the next certificate causes another attempt', async () => {
  const { old, ca } = await twoGenerations();
  const { listener: other, port } = await startListener();
  await other.present(await certificateOf(old));
  const { options } = recordingOptions();
  const listener = createListener({ host: '127.0.0.1', port }, options);
  onTestFinished(() => listener.close());
  const certificate = await certificateOf(old);
  await expect(listener.present(certificate)).rejects.toThrow(/EADDRINUSE/);
  await other.close();
  await listener.present(certificate);
  expect(await presented({ port, ca })).toBe(serialOf(certificate));
});
