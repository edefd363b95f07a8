import { expect, test } from 'vitest';
import { createDiscovery, refuseOlder, versionProblem } from './discovery.ts';
import { sendJson, startServer, status } from '../../test/support/kube/fake-api-server.ts';

const group = (preferred: string, ...versions: string[]) => ({
  versions: versions.map((version) => ({ groupVersion: `g/${version}`, version })),
  preferredVersion: { version: preferred },
});
const resources = (...names: string[]) => ({
  resources: names.flatMap((name) => [
    { name: `${name}/status`, kind: 'X', namespaced: false },
    { name, kind: 'Kind', namespaced: true },
  ]),
});

/** Shorter than the Retry-After below, so that no request waits for it. */
const DEADLINE_MS = 8_000;

const answers: Readonly<Record<string, object>> = {
  '/apis/infra.example.com': group('v2', 'v1', 'v2'),
  '/apis/infra.example.com/v1': resources('servers', 'racks'),
  '/apis/infra.example.com/v2': resources('servers'),
  '/api/v1': resources('secrets'),
  '/version': { major: '1', minor: '30+', gitVersion: 'v1.30.2-eks-1a2b3c4' },
};

async function start(down?: () => string, others: typeof answers = {}) {
  const server = await startServer(({ url }, response) => {
    const found = { ...answers, ...others }[url.pathname];
    if (url.pathname === down?.())
      sendJson(response, status(503, 'ServiceUnavailable'), 503, { 'retry-after': '9' });
    else if (found === undefined) sendJson(response, status(404, 'NotFound'), 404);
    else if ('code' in found) sendJson(response, found, Number(found.code));
    else sendJson(response, found);
  });
  let now = 1_000_000;
  const rest = server.rest();
  const discovery = createDiscovery(
    { ...rest, request: (request) => rest.request({ ...request, timeoutMs: DEADLINE_MS }) },
    { now: () => now },
  );
  return {
    discovery,
    requests: server.requests,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('a resource is found in the preferred version, or in the one that has it', async () => {
  const { discovery } = await start();
  const of = { group: 'infra.example.com', kind: 'Kind', namespaced: true };
  const found = (version: string, resource: string) => ({ ...of, version, resource });
  expect(await discovery.resolve({ group: of.group, resource: 'servers' })).toEqual(found('v2', 'servers'));
  expect(await discovery.resolve({ group: of.group, resource: 'racks' })).toEqual(found('v1', 'racks'));
  expect(await discovery.resolve({ group: '', resource: 'secrets' })).toMatchObject({
    group: '',
    version: 'v1',
  });
});

test('a missing resource is requested again after some seconds, not immediately', async () => {
  const { discovery, requests, pass } = await start();
  const wanted = { group: 'none.example.com', resource: 'servers' };
  expect(await discovery.resolve(wanted)).toBeUndefined();
  expect(await discovery.resolve(wanted)).toBeUndefined();
  expect(requests).toHaveLength(1);
  pass(5_000);
  await discovery.resolve(wanted);
  expect(requests).toHaveLength(2);
});

test('an unavailable version does not count as missing, and the failure is not cached', async () => {
  let down = '/apis/infra.example.com/v2';
  const { discovery } = await start(() => down);
  const wanted = { group: 'infra.example.com', resource: 'servers' };
  await expect(discovery.resolve(wanted)).rejects.toMatchObject({ code: 503 });
  down = '';
  expect(await discovery.resolve(wanted)).toMatchObject({ version: 'v2' });
});

test.each([
  [{ major: '1', minor: '30+', gitVersion: 'v1.30.2-eks-1a2b3c4' }, 1, 30],
  [{ major: '1', minor: '', gitVersion: 'v1.31.4' }, 1, 31],
  [{ major: '1', minor: 'unknown', gitVersion: 'v1.31.4' }, 1, 31],
  [{ major: '1', minor: '' }, 0, 0],
  [{}, 0, 0],
  [{ ...status(403, 'Forbidden'), code: 403 }, 0, 0],
])('of %j, the version is %i.%i: 0.0 is hidden', async (version, major, minor) => {
  const { discovery } = await start(undefined, { '/version': version });
  expect(await discovery.serverVersion()).toMatchObject({ major, minor });
});

test('a kind is found in the requested version, or in the one that has it', async () => {
  const { discovery, requests } = await start();
  const wanted = { group: 'infra.example.com', kind: 'Kind' };
  expect(await discovery.resolveKind({ ...wanted, version: 'v1' })).toMatchObject({
    version: 'v1',
    resource: 'servers',
    namespaced: true,
  });
  // A version that is not served anymore, e.g. from an old backup.
  expect(await discovery.resolveKind({ ...wanted, version: 'v1alpha1' })).toMatchObject({ version: 'v2' });
  expect(await discovery.resolveKind({ group: '', version: 'v1', kind: 'Kind' })).toMatchObject({
    resource: 'secrets',
  });
  expect(await discovery.resolveKind({ ...wanted, version: 'v1', kind: 'X' })).toBeUndefined(); // only of subresources
  expect(await discovery.resolveKind({ group: 'none', version: 'v1', kind: 'Kind' })).toBeUndefined();

  const before = requests.length;
  await discovery.resolveKind({ ...wanted, version: 'v1' });
  expect(requests).toHaveLength(before);
  discovery.forget({ group: 'infra.example.com', resource: 'servers' });
  await discovery.resolveKind({ ...wanted, version: 'v1' });
  expect(requests.length).toBeGreaterThan(before);
});

test('a caller that has stopped waiting sends no request', async () => {
  const { discovery, requests } = await start();
  const ended = AbortSignal.abort(new Error('shutting down'));
  const wanted = { group: 'infra.example.com', resource: 'servers', version: 'v1', kind: 'Kind' };
  await expect(discovery.resolve(wanted, ended)).rejects.toThrow('shutting down');
  await expect(discovery.resolveKind(wanted, ended)).rejects.toThrow('shutting down');
  await discovery.serverVersion();
  expect(requests.map(({ url }) => url)).toEqual(['/version']);
});

test('an API server that is too old and hides its exact version is named by its minor version', () => {
  expect(() => {
    refuseOlder({ major: 1, minor: 29, gitVersion: '' });
  }).toThrow(
    'the API server runs Kubernetes 1.29, but Gatehouse supports 1.30 to 1.37: upgrade every API server',
  );
});

test.each([
  [1, 30, 'v1.30.0'],
  [1, 30, 'v1.30.5-eks-1a2b3c4'],
  [1, 37, 'v1.37.2'],
  [1, 38, 'v1.38.0-alpha.1'],
  [2, 0, 'v2.0.0'],
  [0, 0, ''],
])('%i.%i (%s) is not refused', (major, minor, gitVersion) => {
  expect(versionProblem({ major, minor, gitVersion })).toBeUndefined();
});

test('the version comes from the network, so the message has neither line breaks nor megabytes of it', () => {
  const problem = versionProblem({
    major: 1,
    minor: 20,
    gitVersion: `v1.20.0\n\u001b[2J${'x'.repeat(1_000_000)}`,
  });
  expect(problem).not.toMatch(/\p{Cc}/u);
  expect(problem?.length).toBeLessThan(300);
});
