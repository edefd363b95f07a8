import { expect, test } from 'vitest';
import type { Resource } from '../../../kube/object.ts';
import { readCluster } from './read-cluster.ts';

test('the compat modes of the leader count, and annotations without effect are found', async () => {
  const lease = { metadata: { annotations: { 'gatehouse.dev/compat': 'cert-manager' } } };
  const secret = {
    metadata: { namespace: 'shop', name: 'ca', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  };
  const client = {
    get: ({ resource }: Resource) => Promise.resolve(resource === 'leases' ? lease : undefined),
    listAll: ({ resource }: Resource) => Promise.resolve({ items: resource === 'secrets' ? [secret] : [] }),
  } as never;
  const scope = { namespace: 'gatehouse-system', compat: ['openshift'] as const };
  const { compat, misplaced } = await readCluster(client, scope);
  expect((await readCluster(client, scope, true)).misplaced).toEqual([]);
  expect(compat).toEqual(['openshift', 'cert-manager']);
  const message = expect.stringContaining('is ignored on a Secret') as string;
  expect(misplaced).toEqual([{ object: 'Secret shop/ca', message }]);
});
