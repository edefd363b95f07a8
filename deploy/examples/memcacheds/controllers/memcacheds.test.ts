// node --test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startControllerSuite } from '@gatehouse-dev/gatehouse/testing';

import memcacheds from './memcacheds.ts';

const crd = new URL('../memcached-crd.yaml', import.meta.url);
const deployments = { group: 'apps', version: 'v1', resource: 'deployments' };
const cache = { namespace: 'default', name: 'cache' };

test('a deleted Deployment comes back', async () => {
  const suite = await startControllerSuite(memcacheds, {
    manifests: [crd],
  });
  try {
    await suite.apply({
      apiVersion: 'cache.example.com/v1',
      kind: 'Memcached',
      metadata: cache,
      spec: { size: 0, image: 'memcached' },
    });
    const { waiting } = await suite.settle();
    assert.deepEqual(
      waiting.map(({ reason }) => reason),
      ['RollingOut'],
    );
    await suite.setStatus(deployments, cache, { observedGeneration: 1 });
    assert.deepEqual((await suite.settle()).waiting, []);
    await suite.remove(deployments, cache);
    await suite.settle();
    assert.equal((await suite.get(deployments, cache))?.metadata?.name, 'cache');
  } finally {
    await suite.stop();
  }
});
