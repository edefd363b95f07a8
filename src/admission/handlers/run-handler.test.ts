import { describe, expect, test } from 'vitest';

import { defineHandler } from './handler.ts';
import { MATCH, testServer, type TestServer } from '../../../test/support/admission/handler.ts';
import { runHandler } from './run-handler.ts';

interface Datacenter {
  readonly spec: { readonly capacity: number };
}

const servers = defineHandler<TestServer>({
  match: MATCH,
  reads: ['datacenters.infra.example.com', 'servers.infra.example.com'],
  mutate: (draft) => {
    draft.spec.tier ??= 'standard';
  },
  async validate(server, { request, deny, warn, audit, get, list }) {
    if (request.operation === 'DELETE') {
      if (request.user.username !== 'admin') deny('only admin deletes servers');
      return;
    }
    const home = await get<Datacenter>('datacenters', { name: server.spec.datacenter });
    if (home === undefined) deny('no such datacenter', { field: 'spec.datacenter' });
    const peers = await list('servers', { labelSelector: { matchLabels: { tier: 'gold' } } });
    audit('peers', String(peers.length));
    if (server.spec.tier === 'standard') warn('a standard server');
  },
});
const fra1 = { metadata: { name: 'fra1' }, spec: { capacity: 4 } };
const cluster = { 'datacenters.infra.example.com': [fra1] };

test('runs mutate, then validate on the result, in a cluster of a few objects', async () => {
  const peers = [
    testServer({}, { name: 'a', labels: { tier: 'gold' } }),
    testServer({}, { name: 'b' }),
    testServer({}, { name: 'c', namespace: 'other', labels: { tier: 'gold' } }),
  ];
  const verdict = await runHandler(servers, {
    object: testServer(),
    cluster: { ...cluster, 'servers.infra.example.com': peers },
  });
  expect(verdict).toEqual({
    allowed: true,
    message: undefined,
    code: undefined,
    reason: undefined,
    causes: [],
    warnings: ['a standard server'],
    auditAnnotations: { peers: '1' },
    object: testServer({ tier: 'standard' }),
    patch: [{ op: 'add', path: '/spec/tier', value: 'standard' }],
  });
});

test('the operation follows from the objects', async () => {
  const deleted = await runHandler(servers, { oldObject: testServer(), user: { username: 'jane' } });
  expect(deleted).toMatchObject({ allowed: false, object: undefined });
  const byAdmin = await runHandler(servers, { oldObject: testServer(), user: { username: 'admin' } });
  expect(byAdmin.allowed).toBe(true);
  const updated = { oldObject: testServer(), object: testServer({ tier: 'gold' }), cluster };
  expect((await runHandler(servers, updated)).patch).toEqual([]);
});

describe('an author sees', () => {
  const broken = (mutate: (draft: TestServer) => void) =>
    runHandler(defineHandler<TestServer>({ match: MATCH, onError: 'allow', mutate }), {
      object: testServer(),
    });

  test('an exception, for every onError', async () => {
    const thrown = new Error('mine');
    await expect(
      broken(() => {
        throw thrown;
      }),
    ).rejects.toBe(thrown);
  });

  test('a mutation that changes its own result on the second run', async () => {
    const again = broken((draft) => void (draft.spec.units = (draft.spec.units ?? 0) + 1));
    await expect(again).rejects.toThrow('a second run changes /spec/units');
  });

  test('a request that would never arrive', async () => {
    const asked = runHandler(servers, { operation: 'CONNECT', object: { kind: 'PodExecOptions' } });
    await expect(asked).rejects.toThrow(
      'does not send CONNECT requests: match.operations has CREATE, DELETE',
    );
    await expect(runHandler(servers, {})).rejects.toThrow('object or oldObject is required');
  });
});
