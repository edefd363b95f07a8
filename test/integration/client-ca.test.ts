/** Which clients the webhook port accepts with `--client-ca`: with one exception, no others get as far as HTTP. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';

import { caBundle } from '../../src/pki/authority/authority.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import {
  createClientAuthenticator,
  type ClientTrust,
} from '../../src/server/listener/client-certificates.ts';
import { createListener } from '../../src/server/listener/listener.ts';
import { createClientCa } from '../support/client-certificates.ts';
import { eventually, freePort } from '../support/processes.ts';
import { openRaw, rawPost, reviewOf, VALIDATE, type RawConnection } from '../support/webhook-client.ts';
import {
  certificateOf,
  governedBy,
  recordingOptions,
  serversPolicy,
  type Endpoint,
} from '../support/webhook-server.ts';

const ours = createClientCa('webhook clients');
const others = createClientCa('webhook clients'); // the same name with another key
const foreign = others.issue({ commonName: 'kube-apiserver' });
const expired = ours.issue({ commonName: 'a', lifetimeSeconds: -1 });
const ofServer = ours.issue({ commonName: 'a', usage: 'serverAuth' });
const apiServer = ours.issue({ commonName: 'kube-apiserver', dnsNames: ['api.example.com'] });

async function start(trust: Partial<ClientTrust> = {}) {
  const now = new Date();
  const authority = await firstAuthority(now);
  const { options, recorded } = recordingOptions(governedBy([serversPolicy]));
  const refusals: string[] = [];
  const metrics = { refusedClient: (why: string) => void refusals.push(why) };
  const clients = createClientAuthenticator(
    { ca: ours.cert, names: [], scope: 'admission', ...trust },
    metrics,
    options.log,
  );
  const port = await freePort();
  const listener = createListener({ host: '127.0.0.1', port }, { ...options, clients });
  onTestFinished(() => listener.close());
  await listener.present(await certificateOf(authority, now));
  const { lines, admissions } = recorded;
  return { port, ca: caBundle(authority, now), listener, refusals, lines, admissions };
}

/** The status of a review, or of any POST to `path`; undefined if the server sent no response. */
async function ask(endpoint: Endpoint, client: ConnectionOptions = {}, path = VALIDATE) {
  const connection = await openRaw(endpoint, client);
  const status = await statusOf(connection, path);
  connection.socket.destroy();
  return status;
}

async function statusOf({ socket, received }: RawConnection, path = VALIDATE): Promise<number | undefined> {
  socket.write(rawPost(path, reviewOf()));
  const [, status] = /HTTP\/1\.1 (\d+) /.exec(await received(/HTTP\/1\.1 (?!100)\d+ [^]*\r\n\r\n/)) ?? [];
  return status === undefined ? undefined : Number(status);
}

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('over %s', (version) => {
  const by = { minVersion: version, maxVersion: version };

  test.each<[string, Partial<ClientTrust>, ConnectionOptions, string | undefined]>([
    ['a certificate of the CA is accepted', {}, apiServer, undefined],
    ['an allowed common name is accepted', { names: ['x', 'kube-apiserver'] }, apiServer, undefined],
    ['an allowed DNS name is accepted', { names: ['api.example.com'] }, apiServer, undefined],
    ['other names is refused', { names: ['example.com', 'api', 'kube-apiserver2'] }, apiServer, 'name'],
    ['a certificate of another CA and the same name is refused', {}, foreign, 'untrusted'],
    ['an expired certificate is refused', {}, expired, 'untrusted'],
    ['a server certificate is refused', {}, ofServer, 'untrusted'],
    ['a self-signed certificate is refused', {}, others, 'untrusted'],
  ])('a client with %s', async (_what, trust, client, refusal) => {
    const server = await start(trust);
    expect(await ask(server, { ...by, ...client }).catch(() => undefined)).toBe(
      refusal === undefined ? 200 : undefined,
    );
    expect(server.refusals).toEqual(refusal === undefined ? [] : [refusal]);
    expect(server.admissions).toHaveLength(refusal === undefined ? 1 : 0);
  });

  test('a client without a certificate can only have objects converted', async () => {
    const server = await start();
    expect(await ask(server, by)).toBe(401);
    expect(await ask(server, by, '/mutate/x')).toBe(401);
    expect(await ask(server, by, '/')).toBe(401);
    expect(await ask(server, by, '/convert/../validate/x')).toBe(401);
    // the server has read the body, which is not a ConversionReview
    expect(await ask(server, by, '/convert')).toBe(400);
    expect(await ask(server, by, '/convert/servers.infra.example.com')).toBe(400);
    expect(server.admissions).toEqual([]);
  });

  test('a client without a certificate does not reach HTTP if conversions also require one', async () => {
    const server = await start({ scope: 'all' });
    for (const path of ['/convert', VALIDATE])
      expect(await ask(server, by, path).catch(() => undefined)).toBeUndefined();
    expect(server.refusals).toEqual(['no-certificate', 'no-certificate']);
    expect(await ask(server, { ...by, ...apiServer }, '/convert')).toBe(400);
  });

  test('no client can resume a TLS session, with or without a certificate', async () => {
    const server = await start();
    for (const client of [apiServer, {}]) {
      const connection = await openRaw(server, { ...by, ...client });
      const { socket } = connection;
      const sessions: Buffer[] = [];
      socket.on('session', (session) => sessions.push(session));
      await statusOf(connection);
      const early = socket.getSession();
      socket.destroy();
      const resumed = async () => {
        for (const session of [...sessions, ...(early === undefined ? [] : [early])]) {
          const again = await openRaw(server, { ...by, session });
          expect(again.socket.isSessionReused()).toBe(false);
          expect(await statusOf(again)).toBe(401);
          again.socket.destroy();
        }
      };
      await resumed();
      await server.listener.trust({ ca: others.cert, names: [], scope: 'admission' });
      await resumed();
      await server.listener.trust({ ca: ours.cert, names: [], scope: 'admission' });
    }
  });
});

test('a chain with an intermediate is accepted, whether the client or the CA file contains the intermediate', async () => {
  const below = ours.intermediate('for clusters');
  const leaf = below.issue({ commonName: 'kube-apiserver' });
  const withChain = { key: leaf.key, cert: leaf.cert + below.cert };
  expect(await ask(await start(), withChain)).toBe(200);
  expect(await ask(await start({ ca: ours.cert + below.cert }), leaf)).toBe(200);
});

test('when the CA changes, open connections must reconnect, and certificates of the old CA are refused', async () => {
  const server = await start();
  const open = await openRaw(server, apiServer);
  expect(await statusOf(open)).toBe(200);
  await server.listener.trust({ ca: others.cert, names: [], scope: 'admission' });
  open.socket.write(rawPost(VALIDATE, reviewOf({ uid: 'late' })));
  const rest = await open.received();
  expect(rest).toMatch(/HTTP\/1\.1 429 [^]*retry-after: 1/i);
  expect(rest).not.toContain('late');
  expect(await ask(server, apiServer).catch(() => undefined)).toBeUndefined();
  expect(await ask(server, foreign)).toBe(200);
});

test('a new serving certificate does not change the client CA', async () => {
  const server = await start();
  const now = new Date();
  const authority = await firstAuthority(now);
  await server.listener.present(await certificateOf(authority, now));
  const endpoint = { port: server.port, ca: caBundle(authority, now) };
  expect(await ask(endpoint)).toBe(401);
  expect(await ask(endpoint, others.issue({ commonName: 'a' })).catch(() => undefined)).toBeUndefined();
  expect(await ask(endpoint, apiServer)).toBe(200);
});

test('a client whose certificate expires during a connection must reconnect', async () => {
  const server = await start();
  const brief = ours.issue({ commonName: 'kube-apiserver', lifetimeSeconds: 5 });
  const connection = await openRaw(server, brief);
  expect(await statusOf(connection)).toBe(200);
  await sleep(6_000);
  connection.socket.write(rawPost(VALIDATE, reviewOf()));
  expect(await connection.received()).toMatch(/HTTP\/1\.1 429 /);
  expect(await ask(server, brief).catch(() => undefined)).toBeUndefined();
});

test('a hundred refused clients cause one line in the log', async () => {
  const server = await start();
  const stranger = others.issue({ commonName: 'mallory\\nlevel=error' });
  await Promise.all(Array.from({ length: 100 }, () => ask(server, stranger).catch(() => undefined)));
  await eventually('all are counted', () => server.refusals.length === 100);
  const said = server.lines.filter(({ msg }) => msg === 'refused a client of the webhooks');
  expect(said).toMatchObject([{ level: 'warn', reason: 'untrusted', address: '127.0.0.1' }]);
});
