// node --test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runHandler } from '@gatehouse-dev/gatehouse';

import servers from './servers.ts';

const server = (name: string, spec: object) => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: { name, namespace: 'shop' },
  spec: { datacenter: 'fra1', ...spec },
});
const cluster = {
  'datacenters.infra.example.com': [{ metadata: { name: 'fra1' }, spec: { capacity: 6 } }],
  'servers.infra.example.com': [server('web', { units: 2 })],
};

test('a gold server gets four units', async () => {
  const verdict = await runHandler(servers, { object: server('db', { tier: 'gold' }), cluster });
  assert.deepEqual(verdict.object, server('db', { tier: 'gold', units: 4 }));
  assert.deepEqual(verdict.warnings, ['fra1 is full now']);
});

test('a server that does not fit is refused', async () => {
  const verdict = await runHandler(servers, { object: server('db', { units: 5 }), cluster });
  assert.equal(verdict.allowed, false);
  assert.match(verdict.message ?? '', /^spec\.units: fra1 has 4 of 6 units left/);
});

test('a server that grows does not count twice', async () => {
  const verdict = await runHandler(servers, {
    oldObject: server('web', { units: 2 }),
    object: server('web', { units: 6 }),
    cluster,
  });
  assert.equal(verdict.allowed, true);
});
