import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { ApiError, isConflict, isOfOutage, NetworkError } from './api-error.ts';
import { BACKGROUND_CONNECTIONS, REQUEST_CONNECTIONS } from './connection.ts';
import { AWAY_MS } from './rest/recovery.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import {
  always,
  headerLines,
  selfSigned,
  sendJson,
  startServer,
  status,
} from '../../test/support/kube/fake-api-server.ts';
import { createClient } from './client.ts';
import { confined, OutsideNamespacesError, type Rest, type RestRequest } from './rest.ts';
import { configMaps, events, namespaces, secrets } from './well-known.ts';

/** A clock that skips waits and records them in `waited`. */
function quickClock(): Clock & { readonly waited: number[] } {
  const waited: number[] = [];
  let skipped = 0;
  return {
    waited,
    now: () => Date.now() + skipped,
    monotonic: () => systemClock.monotonic() + skipped,
    after: (ms, run) => {
      if (ms >= 30_000) return systemClock.after(ms, run);
      waited.push(ms);
      skipped += ms;
      return systemClock.after(0, run);
    },
  };
}

const get = (rest: Rest, more: Partial<RestRequest> = {}) =>
  rest.request({ method: 'GET', path: '/x', ...more });

test('twenty sequential calls share one TLS connection, twenty concurrent ones stay within the pool', async () => {
  const server = await startServer(
    (_request, response) =>
      setTimeout(() => {
        sendJson(response, {});
      }, 5),
    selfSigned(),
  );
  const rest = server.rest();
  for (let i = 0; i < 20; i++) await get(rest);
  expect(server.connections()).toBe(1);

  await Promise.all(Array.from({ length: 20 }, () => get(rest)));
  expect(server.connections()).toBeLessThanOrEqual(REQUEST_CONNECTIONS);
  expect(server.requests).toHaveLength(40);
});

test('every impersonated group has its own header line', async () => {
  const server = await startServer(always({}));
  const rest = server.rest().impersonate({
    user: 'zoë',
    groups: ['system:authenticated', 'a,b'],
    uid: 'u1',
    extra: { 'example.com/scopes (x)': ['one', 'two'] },
  });
  await get(rest);
  const headers = server.requests[0]?.headers ?? [];
  expect(headerLines(headers, 'Impersonate-Group')).toEqual(['system:authenticated', 'a,b']);
  expect(Buffer.from(headerLines(headers, 'Impersonate-User')[0] ?? '', 'latin1').toString('utf8')).toBe(
    'zoë',
  );
  expect(headerLines(headers, 'Impersonate-Uid')).toEqual(['u1']);
  expect(headerLines(headers, 'Impersonate-Extra-example.com%2Fscopes%20%28x%29')).toEqual(['one', 'two']);
});

test('explicit impersonation replaces the impersonation of the kubeconfig completely', async () => {
  const server = await startServer(always({}));
  const headers = () =>
    Promise.resolve({ Authorization: 'Bearer t', 'Impersonate-User': 'a', 'Impersonate-Group': ['admins'] });
  const rest = server.rest({ connection: { ...server.connection, headers } }).impersonate({ user: 'b' });
  await get(rest);
  const sent = server.requests[0]?.headers ?? [];
  expect(headerLines(sent, 'Impersonate-User')).toEqual(['b']);
  expect(headerLines(sent, 'Impersonate-Group')).toEqual([]);
  expect(headerLines(sent, 'Authorization')).toEqual(['Bearer t']);
});

test('a POST honours Retry-After, and does not retry too early', async () => {
  const server = await startServer((_request, response, n) => {
    if (n < 2) sendJson(response, status(429, 'TooManyRequests'), 429, { 'retry-after': '3' });
    else sendJson(response, { done: true });
  });
  const clock = quickClock();
  await expect(server.rest({ clock }).request({ method: 'POST', path: '/x', body: {} })).resolves.toEqual({
    done: true,
  });
  expect(clock.waited).toHaveLength(2);
  for (const ms of clock.waited) expect(ms).toBeGreaterThanOrEqual(3_000);
});

test('a server that always answers Retry-After gets eleven attempts', async () => {
  const server = await startServer(always(status(429, 'TooManyRequests'), 429, { 'retry-after': '0' }));
  const result = get(server.rest({ clock: quickClock() }));
  await expect(result).rejects.toMatchObject({ code: 429, reason: 'TooManyRequests' });
  expect(server.requests).toHaveLength(11);
});

test('a wait beyond the deadline is not started: the caller gets the error of the server', async () => {
  const server = await startServer(always(status(429, 'TooManyRequests'), 429, { 'retry-after': '50' }));
  await expect(get(server.rest(), { timeoutMs: 5_000 })).rejects.toMatchObject({
    code: 429,
    retryAfterSeconds: 50,
  });
  expect(server.requests).toHaveLength(1);
});

test.each([
  ['GET', 4],
  ['PUT', 4],
  ['DELETE', 4],
  ['POST', 1],
  ['PATCH', 1],
] as const)('an unexplained 500 makes a %s go out %i times', async (method, times) => {
  const server = await startServer(always(status(500, 'InternalError'), 500));
  const result = server.rest({ clock: quickClock() }).request({ method, path: '/x' });
  await expect(result).rejects.toBeInstanceOf(ApiError);
  expect(server.requests).toHaveLength(times);
});

test('a GET survives a broken connection, a POST reports it', async () => {
  const server = await startServer((request, response, n) => {
    if (request.method === 'POST' || n === 0) response.destroy();
    else sendJson(response, { n });
  });
  const rest = server.rest({ clock: quickClock() });
  await expect(get(rest)).resolves.toEqual({ n: 1 });
  await expect(rest.request({ method: 'POST', path: '/x' })).rejects.toMatchObject({
    name: 'NetworkError',
    kind: 'connection',
  });
  expect(server.requests).toHaveLength(3);
});

test('a server that never answers meets the deadline', async () => {
  const server = await startServer(() => undefined);
  const result = get(server.rest(), { query: { fieldSelector: 'hidden' }, timeoutMs: 20 });
  await expect(result).rejects.toThrow('GET /x: no answer within 20 ms');
  await expect(result).rejects.toBeInstanceOf(NetworkError);
});

test('a request that waits for a free connection meets the deadline', async () => {
  const server = await startServer(() => undefined, selfSigned());
  const rest = server.rest();
  const occupied = Array.from({ length: REQUEST_CONNECTIONS }, () =>
    get(rest, { timeoutMs: 2_000 }).catch(() => undefined),
  );
  const started = performance.now();
  await expect(get(rest, { timeoutMs: 50 })).rejects.toThrow('no answer within 50 ms');
  expect(performance.now() - started).toBeLessThan(1_500);
  await Promise.all(occupied);
});

test('background requests leave connections free', async () => {
  const server = await startServer((request, response) => {
    if (request.url.pathname !== '/slow') sendJson(response, {});
  });
  const controllers = server.rest({ background: true });
  const over = new AbortController();
  const many = Array.from({ length: BACKGROUND_CONNECTIONS + 10 }, () =>
    get(controllers, { path: '/slow', signal: over.signal }).catch(() => undefined),
  );
  await expect.poll(() => server.requests.length).toBe(BACKGROUND_CONNECTIONS);
  expect(await get(server.rest({ prompt: true }))).toEqual({});
  over.abort();
  await Promise.all(many);
});

test('the first prompt request that meets its deadline aborts the other prompt ones', async () => {
  const server = await startServer(() => undefined, selfSigned());
  const prompt = server.rest({ prompt: true });
  const patient = server.rest();
  const first = get(prompt, { timeoutMs: AWAY_MS + 100 });
  const second = get(prompt, { timeoutMs: 60_000 });
  const other = get(patient, { timeoutMs: AWAY_MS + 600 });
  await expect(first).rejects.toThrow(`no answer within ${AWAY_MS + 100} ms`);
  const away = 'the API server does not answer this replica at the moment';
  await expect(second).rejects.toThrow(away);
  await expect(other).rejects.toThrow(`no answer within ${AWAY_MS + 600} ms`);
  const probe = prompt.request({ method: 'GET', path: '/version', timeoutMs: 50 });
  await expect(prompt.request({ method: 'GET', path: '/version' })).rejects.toThrow(away);
  await expect(probe).rejects.toThrow('no answer within 50 ms');
  expect(server.requests).toHaveLength(4);
});

test('a body that stops in the middle meets the deadline', async () => {
  const server = await startServer((_request, response) => {
    response.writeHead(200);
    response.write('{"items": [');
  });
  await expect(get(server.rest(), { timeoutMs: 30 })).rejects.toMatchObject({
    kind: 'deadline',
  });
});

test('an abort rejects the request with its reason', async () => {
  const server = await startServer(() => undefined);
  const controller = new AbortController();
  const result = get(server.rest(), { signal: controller.signal });
  controller.abort(new Error('leadership lost'));
  await expect(result).rejects.toThrow('leadership lost');
});

test('a 401 is retried once with fresh credentials', async () => {
  const server = await startServer((request, response) => {
    if (request.headers.authorization === 'Bearer new') sendJson(response, { ok: true });
    else sendJson(response, status(401, 'Unauthorized'), 401);
  });
  let token = 'old';
  const connection = {
    ...server.connection,
    headers: () => Promise.resolve({ Authorization: `Bearer ${token}` }),
    dropCredentials: () => {
      token = 'new';
    },
  };
  await expect(get(server.rest({ connection }))).resolves.toEqual({
    ok: true,
  });
  connection.dropCredentials = () => {
    token = 'wrong';
  };
  token = 'old';
  await expect(get(server.rest({ connection }))).rejects.toMatchObject({
    code: 401,
  });
  expect(server.requests).toHaveLength(4);
});

test('a retry that is not permitted anymore is not sent', async () => {
  const server = await startServer(always(status(500, 'InternalError'), 500));
  let leader = true;
  const beforeSend = () => {
    if (!leader) throw new Error('not the leader');
    leader = false;
  };
  await expect(
    server.rest({ clock: quickClock() }).request({ method: 'PUT', path: '/x', beforeSend }),
  ).rejects.toThrow('not the leader');
  expect(server.requests).toHaveLength(1);
});

test('an API error has reason and causes', async () => {
  const details = {
    kind: 'servers',
    name: 'db',
    causes: [{ reason: 'FieldValueInvalid', message: 'bad', field: 'spec.x' }],
  };
  const server = await startServer(always(status(409, 'Conflict', { details }), 409));
  const error: unknown = await server
    .rest()
    .request({ method: 'PUT', path: '/x' })
    .catch((e: unknown) => e);
  expect(isConflict(error)).toBe(true);
  expect(error).toMatchObject({
    message: 'PUT /x: 409 Conflict: Conflict said the fake server',
    causes: [{ field: 'spec.x' }],
  });
});

test('a page of HTML is reported as such', async () => {
  const server = await startServer((_request, response, n) => {
    response.writeHead(n === 0 ? 200 : 403).end('<h1>Please\n log in</h1>');
  });
  await expect(get(server.rest())).rejects.toMatchObject({
    kind: 'malformed',
  });
  await expect(get(server.rest())).rejects.toThrow('GET /x: 403: <h1>Please log in</h1>');
});

test('the Date header is observed when the response starts, not when its body is complete', async () => {
  const begun = Promise.withResolvers<string>();
  const server = await startServer((_request, response) => {
    response.writeHead(200, { date: 'Sat, 21 Nov 2026 12:00:00 GMT' });
    response.write('{');
    void begun.promise.then(() => response.end('}'));
  });
  const answer = get(server.rest({ onDate: begun.resolve }), { path: '/version' });
  await expect(answer).resolves.toEqual({});
  await expect(begun.promise).resolves.toBe('Sat, 21 Nov 2026 12:00:00 GMT');
});

test('the date of an aggregated API server, whose clock may be wrong, is ignored', async () => {
  const server = await startServer((_request, response) => {
    response.writeHead(200, { date: 'Sat, 21 Nov 2026 12:00:00 GMT' }).end('{}');
  });
  const dates: string[] = [];
  const rest = server.rest({ onDate: (date) => dates.push(date) });
  for (const path of ['/apis/metrics.k8s.io/v1beta1/pods', '/apis/example.com/v1', '/apis/api/v1'])
    await get(rest, { path });
  expect(dates).toEqual([]);
  for (const path of ['/version', '/api/v1/pods', '/apis/coordination.k8s.io/v1/leases'])
    await get(rest, { path });
  expect(dates).toHaveLength(3);
});

test('a stream that breaks throws, an abandoned stream frees its connection', async () => {
  let closed = 0;
  const server = await startServer((request, response) => {
    response.on('close', () => closed++);
    response.writeHead(200);
    response.write('{"n":1}\n');
    if (request.url.pathname === '/break') setTimeout(() => response.destroy(), 5);
  });
  const rest = server.rest();
  await expect(async () => {
    for await (const event of rest.stream({ path: '/break' })) expect(event).toEqual({ n: 1 });
  }).rejects.toBeInstanceOf(NetworkError);
  for await (const event of rest.stream({ path: '/leave' })) {
    expect(event).toEqual({ n: 1 });
    break;
  }
  await expect.poll(() => closed).toBe(2);
});

test('a watch that ends early paces the next requests, but the API server does not count as away', async () => {
  const server = await startServer((_request, response) => {
    response.end('{"n":1}\n');
  });
  const { recovery } = server.connection;
  for await (const event of server.rest().stream({ path: '/watch', query: { timeoutSeconds: '300' } }))
    expect(event).toEqual({ n: 1 });
  const { signal } = new AbortController();
  const ends = await Promise.all([recovery.turn(signal), recovery.turn(signal)]);
  expect(ends[0]).not.toBe(ends[1]); // without pacing, both would get the same no-op
  await new Promise((resolve) => setTimeout(resolve, AWAY_MS));
  expect(recovery.isAway()).toBe(false);
});

describe('an aggregated API server', () => {
  const AGGREGATED = '/apis/metrics.example.com/v1/readings';
  const watching = async (rest: Rest) => {
    for await (const event of rest.stream({ path: `${AGGREGATED}-watched` })) expect(event).toEqual({});
  };

  async function start(isUp: boolean) {
    const server = await startServer((request, response) => {
      if (request.url.pathname === `${AGGREGATED}-watched`) {
        response.writeHead(200);
        response.write('{}\n');
        setTimeout(() => response.destroy(), 5);
      } else if (request.url.pathname === `${AGGREGATED}-broken`) response.destroy();
      else if (isUp && !request.url.pathname.startsWith(AGGREGATED)) sendJson(response, {});
    });
    const lost: string[] = [];
    const { recovery } = server.connection;
    recovery.onOutage({ lost: ({ message }) => lost.push(message), back: () => undefined });
    const asked = () => server.requests.filter(({ url }) => url === '/version').length;
    return { server, lost, recovery, asked };
  }

  test('that hangs or breaks its watches is no outage, also when its requests use up a pool', async () => {
    const { server, lost, recovery, asked } = await start(true);
    const prompt = server.rest({ prompt: true });
    const hanging = Array.from({ length: REQUEST_CONNECTIONS }, () =>
      get(prompt, { path: AGGREGATED, timeoutMs: AWAY_MS + 100 }),
    );
    const failed = await Promise.allSettled(hanging);
    await expect(watching(server.rest())).rejects.toBeInstanceOf(NetworkError);
    await expect.poll(asked).toBe(2);
    await sleep(systemClock, AWAY_MS + 100, new AbortController().signal);
    expect(failed.map(({ status: outcome }) => outcome)).not.toContain('fulfilled');
    expect([lost, recovery.isLost(), recovery.isAway()]).toEqual([[], false, false]);
    await expect(get(prompt, { path: '/api/v1/pods' })).resolves.toEqual({});
  });

  test('that breaks a request does not keep the caller beyond its deadline', async () => {
    const { server } = await start(false);
    const started = performance.now();
    const failing = get(server.rest(), { path: `${AGGREGATED}-broken`, timeoutMs: 300 });
    await expect(failing).rejects.toBeInstanceOf(NetworkError);
    expect(performance.now() - started).toBeLessThan(AWAY_MS);
  });

  test.each([
    ['hangs', `no answer within ${AWAY_MS + 100} ms`],
    ['breaks', 'no complete answer'],
  ])('that %s reveals an outage if kube-apiserver does not answer a question', async (how, message) => {
    const { server, lost, recovery, asked } = await start(false);
    const rest = server.rest();
    const failing =
      how === 'hangs' ? get(rest, { path: AGGREGATED, timeoutMs: AWAY_MS + 100 }) : watching(rest);
    const failure: unknown = await failing.catch((error: unknown) => error);
    await expect.poll(() => lost, { timeout: 3 * AWAY_MS }).toEqual([expect.stringContaining(message)]);
    expect([recovery.isLost(), asked()]).toEqual([true, 1]);
    if (how === 'breaks') expect(isOfOutage(failure)).toBe(true);
  });
});

test('watches do not use connections of the request pool', async () => {
  const server = await startServer((request, response) => {
    if (request.url.pathname === '/watch') response.writeHead(200).write('{}\n');
    else sendJson(response, { ok: true });
  });
  const rest = server.rest();
  const watches = Array.from({ length: 20 }, () => rest.stream({ path: '/watch' })[Symbol.asyncIterator]());
  await Promise.all(watches.map((watch) => watch.next()));
  await expect(get(rest, { timeoutMs: 1_000 })).resolves.toEqual({ ok: true });
  for (const watch of watches) await watch.return?.();
});

test('a path prefix of the server URL is kept', async () => {
  const server = await startServer(always({}));
  const rest = server.rest({
    connection: { ...server.connection, server: `${server.url}/k8s/clusters/c1/` },
  });
  await rest.request({
    method: 'GET',
    path: '/api/v1/pods',
    query: { limit: 5, labelSelector: 'a in (b,c)', absent: undefined },
  });
  expect(server.requests[0]?.url).toBe('/k8s/clusters/c1/api/v1/pods?limit=5&labelSelector=a+in+%28b%2Cc%29');
});

function recorded() {
  const paths: string[] = [];
  const rest: Rest = {
    request: <T>({ path }: RestRequest) => {
      paths.push(path);
      return Promise.resolve({} as T); // the caller ignores the response
    },
    stream: ({ path }) => {
      paths.push(path);
      return Readable.from([]);
    },
    impersonate: () => rest,
  };
  return { paths, rest: confined(rest, ['gatehouse-system', 'shop']) };
}

test('requests in the namespaces, and for cluster-scoped objects, are sent', async () => {
  const { paths, rest } = recorded();
  const client = createClient(rest);
  await client.get(secrets, { namespace: 'shop', name: 'db' });
  await client.get(namespaces, { name: 'other' });
  await client.create(events, { metadata: { namespace: 'default', name: 'e' } });
  rest.stream({ path: '/apis/gatehouse.dev/v1alpha1/admissionpolicies' });
  for (const path of ['status', 'finalize?dryRun=All'].map((name) => `/api/v1/namespaces/other/${name}`))
    await rest.request({ method: 'PUT', path });
  expect(paths).toEqual([
    '/api/v1/namespaces/shop/secrets/db',
    '/api/v1/namespaces/other',
    '/api/v1/namespaces/default/events',
    '/apis/gatehouse.dev/v1alpha1/admissionpolicies',
    '/api/v1/namespaces/other/status',
    '/api/v1/namespaces/other/finalize?dryRun=All',
  ]);
});

test.each(['status', 'status?limit=1', 'status-pages/a', 'finalize-jobs'])(
  'a custom resource elsewhere is no subresource of the namespace, although its plural is like one: %s',
  (rest) => {
    expect(() => recorded().rest.stream({ path: `/apis/example.com/v1/namespaces/other/${rest}` })).toThrow(
      OutsideNamespacesError,
    );
  },
);

test('requests elsewhere are not sent, whichever component makes them', async () => {
  const { paths, rest } = recorded();
  const client = createClient(rest);
  const ref = { namespace: 'other', name: 'db' };
  const attempts = [
    client.get(secrets, ref),
    client.create(configMaps, { metadata: ref }),
    client.delete(secrets, ref),
    client.list(secrets, { namespace: 'other' }),
    createClient(rest.impersonate({ user: 'u' })).get(secrets, ref),
  ];
  for (const attempt of attempts) await expect(attempt).rejects.toBeInstanceOf(OutsideNamespacesError);
  expect(() => rest.stream({ path: '/apis/apps/v1/namespaces/other/deployments' })).toThrow(
    'namespace other is not among --namespaces',
  );
  expect(paths).toEqual([]);
});
