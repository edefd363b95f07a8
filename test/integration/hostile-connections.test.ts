/** Attacks on the webhook port below HTTP: by TCP and TLS. The server must still answer the next review. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';

import { ALLOWED } from '../../src/admission/review/decision.ts';
import { WEBHOOK_LIMITS } from '../../src/server/webhook-server.ts';
import { connectionsOf, expectLife, open, openPlain, say, sharedServer } from '../support/hostile-clients.ts';
import { eventually } from '../support/processes.ts';
import { openRaw, rawPost, reviewOf, VALIDATE } from '../support/webhook-client.ts';
import { governedBy, serversPolicy, startWebhookServer } from '../support/webhook-server.ts';

const server = sharedServer(serversPolicy);

describe('more connections than the limit', () => {
  const crowded = (connections: number, deps = governedBy([serversPolicy])) =>
    startWebhookServer(deps, { ...WEBHOOK_LIMITS, handshakeMs: 600_000, connections });

  test('without requests replace each other, connections with answered requests stay, and new requests are answered', async () => {
    const running = await crowded(20);
    const kept = await open(running);
    const ask = async (uid: string) => {
      kept.socket.write(rawPost(VALIDATE, reviewOf({ uid })));
      expect(await kept.received(new RegExp(uid))).toContain(uid);
    };
    await ask('first');
    const idle = [];
    for (let n = 0; n < 100; n++) {
      idle.push(await openPlain(running.port));
      if (n % 10 === 0) await expectLife(running);
    }
    await Promise.all(idle.slice(0, 70).map(({ closed }) => closed));
    expect(await connectionsOf(running)).toBeLessThanOrEqual(20);
    await ask('last');
  });

  test('with requests that never end are closed after some seconds', async () => {
    const running = await crowded(10);
    const held = await Promise.all(Array.from({ length: 10 }, () => open(running)));
    for (const { socket } of held) socket.write(rawPost(VALIDATE, reviewOf()).slice(0, -10));
    await sleep(6_000);
    await expectLife(running);
    await eventually('one connection is closed', () => held.some(({ socket }) => socket.closed));
  });

  test('between two requests: the connection that has been idle for longest is closed', async () => {
    const running = await crowded(3);
    const held: TLSSocket[] = [];
    for (const uid of ['one', 'two', 'three']) {
      const connection = await open(running);
      connection.socket.write(rawPost(VALIDATE, reviewOf({ uid })));
      await connection.received(new RegExp(uid));
      held.push(connection.socket);
    }
    await expectLife(running);
    await eventually('the first is closed', () => held[0]?.closed);
    expect(held.slice(1).map(({ closed }) => closed)).toEqual([false, false]);
  });

  test('that wait for a verdict get it, and an additional connection is refused', async () => {
    const verdicts = Promise.withResolvers<typeof ALLOWED>();
    const running = await crowded(3, { mutate: () => ALLOWED, validate: () => verdicts.promise });
    const held = await Promise.all(Array.from({ length: 3 }, () => open(running)));
    for (const [index, { socket }] of held.entries())
      socket.write(rawPost(VALIDATE, reviewOf({ uid: `held-${index}` })));
    await sleep(200);
    const more = await openPlain(running.port);
    await more.closed;
    verdicts.resolve(ALLOWED);
    for (const [index, { received }] of held.entries())
      expect(await received(/allowed/)).toContain(`"uid":"held-${index}"`);
  });
});

describe('TLS', () => {
  test('a client that renegotiates is immediately disconnected', async () => {
    const { socket, received } = await open(server, { maxVersion: 'TLSv1.2' });
    const outcome = new Promise<unknown>((resolve) => {
      socket.once('error', resolve);
      expect(socket.renegotiate({ rejectUnauthorized: false }, resolve)).not.toBe(false);
    });
    expect(String(await outcome)).toMatch(/no renegotiation|ECONNRESET|socket hang up/i);
    await received();
  });

  test.each([
    ['TLS 1.0', { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }],
    ['TLS 1.1', { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }],
    ['CBC', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' }],
    ['CBC with SHA-2', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES256-SHA384' }],
    ['no encryption', { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-NULL-SHA:@SECLEVEL=0' }],
    ['no authentication', { maxVersion: 'TLSv1.2', ciphers: 'AECDH-AES128-SHA:@SECLEVEL=0' }],
  ] as const)('%s is refused', async (_what, options) => {
    await expect(openRaw(server, options)).rejects.toThrow(/alert|no ciphers/);
  });

  test.each(['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-CHACHA20-POLY1305'])(
    '%s, as Go uses it, is accepted',
    async (ciphers) => {
      const { socket } = await open(server, { maxVersion: 'TLSv1.2', ciphers });
      expect(socket.getCipher().name).toBe(ciphers);
    },
  );

  test('a client that requests another host, or none, gets the certificate of Gatehouse', async () => {
    for (const servername of ['kubernetes.default.svc', ''])
      await expect(openRaw(server, { servername })).rejects.toThrow(/does not match|altnames/);
    const { socket, received } = await open(server, {
      servername: 'x'.repeat(255),
      checkServerIdentity: () => undefined,
    });
    socket.write(rawPost(VALIDATE, reviewOf()));
    expect(await received(/allowed/)).toMatch(/^HTTP\/1\.1 200/);
  });

  test('HTTP/2 is not used, even if the client offers it', async () => {
    const { socket } = await open(server, { ALPNProtocols: ['h2', 'http/1.1'] });
    expect(socket.alpnProtocol).not.toBe('h2');
    expect(await say(server, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 /);
  });

  test.each([
    ['plain HTTP', rawPost(VALIDATE, reviewOf())],
    ['noise', Buffer.from(Array.from({ length: 5_000 }, (_, n) => (n * 7919) % 256))],
    ['nothing', ''],
    ['half a handshake', Buffer.from('16030100ff010000fb0303', 'hex')],
  ])('%s instead of TLS is disconnected', async (_what, bytes) => {
    const running = await startWebhookServer(governedBy([serversPolicy]), {
      ...WEBHOOK_LIMITS,
      handshakeMs: 500,
    });
    const { socket, closed } = await openPlain(running.port);
    socket.write(bytes);
    await closed;
    expect(running.recorded.admissions).toEqual([]);
    await expectLife(running);
  });
});

describe('clients that vanish', () => {
  test('a client that stops during its request gets a 408 and is disconnected', async () => {
    const limits = { ...WEBHOOK_LIMITS, requestMs: 500 };
    const running = await startWebhookServer(governedBy([serversPolicy]), limits);
    const script = `require('tls').connect({ port: ${running.port}, host: '127.0.0.1', rejectUnauthorized: false },
      function () { this.write(${JSON.stringify(rawPost(VALIDATE, reviewOf()).slice(0, -10))}, () => console.log('sent')); })`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void child.kill('SIGKILL'));
    await new Promise((resolve) => child.stdout.once('data', resolve));
    child.kill('SIGSTOP'); // its kernel still acknowledges packets; a machine without power does not
    await eventually('it is disconnected', async () => (await connectionsOf(running)) === 0);
  });

  test('TCP keepalive checks whether their machines still respond', async () => {
    const { socket } = await open(server);
    // In /proc, Linux shows which timer runs for a socket: 02 is keepalive.
    // The server's end is the row with its port first.
    const hex = (port: number | undefined) => (port ?? 0).toString(16).toUpperCase().padStart(4, '0');
    const isServersEnd = new RegExp(`:${hex(server.port)} \\w+:${hex(socket.localPort)} 01 `);
    const isKeptAlive = / 02:[0-9A-F]{8} /;
    await eventually('its keepalive timer', () =>
      readFileSync('/proc/net/tcp', 'utf8')
        .split('\n')
        .some((row) => isServersEnd.test(row) && isKeptAlive.test(row)),
    );
  });
});
