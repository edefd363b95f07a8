/** Which of several certificates a listener presents. */
import { X509Certificate } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';

import { caBundle } from '../../src/pki/authority/authority.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import { createListener } from '../../src/server/listener/listener.ts';
import type { ServingCertificate } from '../../src/server/webhook-server.ts';
import { freePort } from '../support/processes.ts';
import { openRaw, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import {
  certificateOf,
  governedBy,
  recordingOptions,
  serversPolicy,
  type Endpoint,
} from '../support/webhook-server.ts';

const authority = await firstAuthority(new Date());
const ca = caBundle(authority, new Date());

async function startListener() {
  const port = await freePort();
  const { options, recorded } = recordingOptions(governedBy([serversPolicy]));
  const listener = createListener({ host: '127.0.0.1', port }, options);
  onTestFinished(() => listener.close());
  return { listener, port, messages: () => recorded.lines.map(({ msg }) => msg) };
}

const serialOf = ({ chain }: ServingCertificate) => new X509Certificate(chain).serialNumber;

async function presented(endpoint: Endpoint): Promise<string> {
  const { socket } = await openRaw(endpoint);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

test('a key that does not match its certificate is refused, and the server still presents the previous certificate', async () => {
  const { listener, port } = await startListener();
  const [first, second] = [await certificateOf(authority), await certificateOf(authority)];
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
  const { listener, port } = await startListener();
  const [first, second] = [await certificateOf(authority), await certificateOf(authority)];
  await expect(listener.present({ chain: first.chain, key: second.key })).rejects.toThrow(
    /key values mismatch/,
  );
  expect(listener.problem(new Date())).toBe('there is no serving certificate yet');
  await expect(presented({ port, ca })).rejects.toThrow(/ECONNREFUSED/);
  await listener.present(first);
  expect(await presented({ port, ca })).toBe(serialOf(first));
});

test('the server presents the later of two simultaneous certificates', async () => {
  const { listener, port, messages } = await startListener();
  const [first, second] = [await certificateOf(authority), await certificateOf(authority)];
  await Promise.all([listener.present(first), listener.present(second), listener.present(second)]);
  expect(await presented({ port, ca })).toBe(serialOf(second));
  expect(messages()).toEqual(['presenting serving certificate', 'presenting serving certificate']);
});

test('OPA TestReconcilerSync: context-done: a certificate that arrives after the shutdown opens no port', async () => {
  const { listener, port } = await startListener();
  await listener.close();
  await listener.present(await certificateOf(authority));
  await expect(presented({ port, ca })).rejects.toThrow(/ECONNREFUSED/);
});
