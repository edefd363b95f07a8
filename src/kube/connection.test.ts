import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createConnection, loadConnection, type Connection } from './connection.ts';
import { systemClock } from './clock.ts';
import { always, headerLines, selfSigned, startServer } from '../../test/support/kube/fake-api-server.ts';
import { createRest } from './rest.ts';

function directory(files: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(join(tmpdir(), 'gatehouse-kube-'));
  onTestFinished(() => {
    rmSync(dir, { recursive: true });
  });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}

async function open(options: Parameters<typeof loadConnection>[0], clock = systemClock): Promise<Connection> {
  const connection = await loadConnection({ environment: {}, ...options }, clock);
  onTestFinished(() => connection.close());
  return connection;
}

const kubeconfig = (server: string, user: object, cluster: object = {}) =>
  JSON.stringify({
    'current-context': 'main',
    contexts: [
      { name: 'main', context: { cluster: 'c', user: 'u', namespace: 'team' } },
      { name: 'other', context: { cluster: 'c', user: 'unknown' } },
    ],
    clusters: [{ name: 'c', cluster: { server, ...cluster } }],
    users: [{ name: 'u', user }],
  });

test('a kubeconfig gives server, namespace, CA and token', async () => {
  const tls = selfSigned();
  const server = await startServer(always({}), tls);
  const config = kubeconfig(server.url, { token: 'secret' }, { 'certificate-authority': 'ca.crt' });
  const dir = directory({ config, 'ca.crt': tls.cert });
  const connection = await open({ kubeconfig: join(dir, 'config') });
  expect(connection).toMatchObject({ server: server.url, namespace: 'team' });
  await createRest({ connection, userAgent: 'test/1' }).request({ method: 'GET', path: '/version' });
  expect(headerLines(server.requests[0]?.headers ?? [], 'authorization')).toEqual(['Bearer secret']);
  expect(headerLines(server.requests[0]?.headers ?? [], 'user-agent')).toEqual(['test/1']);
});

test('a kubeconfig with impersonation sends every group, uid and extra', async () => {
  const user = {
    token: 't',
    as: 'jane',
    'as-uid': 'u-1',
    'as-groups': ['dev', 'ops'],
    'as-user-extra': { scopes: ['a', 'b'] },
  };
  const dir = directory({ config: kubeconfig('https://127.0.0.1:1', user) });
  expect(await (await open({ kubeconfig: join(dir, 'config') })).headers()).toEqual({
    Authorization: 'Bearer t',
    'Impersonate-User': 'jane',
    'Impersonate-Uid': 'u-1',
    'Impersonate-Group': ['dev', 'ops'],
    'Impersonate-Extra-scopes': ['a', 'b'],
  });
});

test('a context can be chosen; one without a user still has its CA', async () => {
  const tls = selfSigned();
  const server = await startServer(always({}), tls);
  const config = kubeconfig(
    server.url,
    {},
    { 'certificate-authority-data': Buffer.from(tls.cert).toString('base64') },
  );
  const dir = directory({ config });
  const connection = await open({ kubeconfig: join(dir, 'config'), context: 'other' });
  expect(connection.namespace).toBeUndefined();
  await createRest({ connection, userAgent: 'test' }).request({ method: 'GET', path: '/version' });
  await expect(open({ kubeconfig: join(dir, 'config'), context: 'none' })).rejects.toThrow(
    'context "none" not found; it has: main, other',
  );
});

test('a pod uses its service account, and the token is read again after a minute', async () => {
  const dir = directory({ token: 'one\n', 'ca.crt': 'CA', namespace: 'gatehouse-system\n' });
  let passed = 0;
  const clock = { ...systemClock, monotonic: () => passed };
  const connection = await open(
    {
      environment: { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' },
      serviceAccountDir: dir,
    },
    clock,
  );
  expect(connection).toMatchObject({ server: 'https://[fd00::1]:6443', namespace: 'gatehouse-system' });
  const token = async () => (await connection.headers()).Authorization;
  expect(await token()).toBe('Bearer one');
  writeFileSync(join(dir, 'token'), 'two');
  passed = 59_000;
  expect(await token()).toBe('Bearer one');
  passed = 70_000;
  expect(await token()).toBe('Bearer two');
  // While the kubelet replaces the file, it may be empty: keep the token that still works.
  writeFileSync(join(dir, 'token'), '');
  passed = 140_000;
  expect(await token()).toBe('Bearer two');
});

test('several files are merged, and the first one wins', async () => {
  const first = JSON.stringify({
    'current-context': 'main',
    users: [{ name: 'u', user: { token: 'first' } }],
  });
  const dir = directory({ first, second: kubeconfig('https://127.0.0.1:1', { token: 'second' }) });
  const connection = await open({
    environment: { KUBECONFIG: ['first', 'missing', 'second'].map((name) => join(dir, name)).join(':') },
  });
  expect(await connection.headers()).toEqual({ Authorization: 'Bearer first' });
});

test('a missing configuration lists the places that were searched', async () => {
  const dir = directory({});
  await expect(open({ environment: { HOME: dir } })).rejects.toThrow(
    /set KUBECONFIG, or write .*\.kube\/config, or run in a pod/,
  );
  await expect(open({ environment: { KUBECONFIG: join(dir, 'none') } })).rejects.toThrow(
    'no file of KUBECONFIG exists: ',
  );
  await expect(open({ kubeconfig: join(dir, 'none') })).rejects.toThrow(
    `could not load the kubeconfig ${join(dir, 'none')}`,
  );
});

test('a token is never sent unencrypted', async () => {
  const dir = directory({ config: kubeconfig('http://127.0.0.1:1', { token: 't' }) });
  await expect(open({ kubeconfig: join(dir, 'config') })).rejects.toThrow('unencrypted: use https');
});

test('the next connection uses a rotated CA', async () => {
  const [old, next] = [selfSigned(), selfSigned()];
  const server = await startServer(always({}), next);
  let ca = old.cert;
  let passed = 0;
  const clock = { ...systemClock, monotonic: () => passed };
  const connection = createConnection(
    { server: server.url },
    () => Promise.resolve({ headers: {}, tls: { ca } }),
    clock,
  );
  onTestFinished(() => connection.close());
  const rest = createRest({ connection, userAgent: 'test' });
  await expect(rest.request({ method: 'POST', path: '/x' })).rejects.toThrow('self-signed');
  ca = next.cert;
  passed = 60_000;
  await rest.request({ method: 'POST', path: '/x' });
});

test('an HTTP proxy tunnels TLS end to end', async () => {
  const tls = selfSigned();
  const server = await startServer(always({ ok: true }), tls);
  const tunnels: unknown[] = [];
  const proxy = createServer().on('connect', (request, socket, head) => {
    tunnels.push([request.url, request.headers['proxy-authorization']]);
    const [host, port] = (request.url ?? '').split(':');
    const upstream = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      upstream.write(head);
      upstream.pipe(socket).pipe(upstream);
    });
    for (const end of [socket, upstream])
      end.on('error', () => {
        socket.destroy();
        upstream.destroy();
      });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    proxy.close();
  });
  const proxyUrl = `http://me:pass@127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const connection = createConnection({ server: server.url, proxyUrl }, () =>
    Promise.resolve({ headers: {}, tls: { ca: tls.cert } }),
  );
  onTestFinished(() => connection.close());
  const rest = createRest({ connection, userAgent: 'test' });
  for (let i = 0; i < 3; i++) expect(await rest.request({ method: 'GET', path: '/x' })).toEqual({ ok: true });
  expect(tunnels).toEqual([[new URL(server.url).host, `Basic ${Buffer.from('me:pass').toString('base64')}`]]);
});
