// node --test
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startControllerSuite } from '@gatehouse-dev/gatehouse/testing';

import users from './users.ts';

const crd = new URL('../user-crd.yaml', import.meta.url);
const kind = { group: 'people.example.com', version: 'v1', resource: 'users' };
const namespaces = { group: '', version: 'v1', resource: 'namespaces' };

test('a User gets a Namespace, which goes with the User', async () => {
  const suite = await startControllerSuite(users, { manifests: [crd] });
  try {
    await suite.apply({
      apiVersion: 'people.example.com/v1',
      kind: 'User',
      metadata: { name: 'ada' },
      spec: { mail: 'ada@example.com' },
    });
    await suite.settle();
    const namespace = await suite.get(namespaces, { name: 'ada' });
    assert.equal(namespace?.metadata?.labels?.['people.example.com/owner'], 'ada');
    await suite.remove(kind, { name: 'ada' });
    await suite.settle();
    assert.equal(await suite.get(namespaces, { name: 'ada' }), undefined);
  } finally {
    await suite.stop();
  }
});
