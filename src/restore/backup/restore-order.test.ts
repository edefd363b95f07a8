import { expect, test } from 'vitest';

import { parseGroupResource } from './backup-path.ts';
import { restoreOrder } from './restore-order.ts';

const item = (text: string) => {
  const [kind = '', ...key] = text.split(' ');
  const [name = '', namespace] = (key[0] ?? '').split('/').toReversed();
  return { text, resource: parseGroupResource(kind), namespace, name };
};

test('Velero restores what others need first, then by the alphabet regardless of scope', () => {
  const expected = [
    'customresourcedefinitions.apiextensions.k8s.io zones.example.com',
    'namespaces shop',
    'serviceaccounts shop/db',
    'secrets a/z',
    'secrets b/a',
    'configmaps shop/db',
    'pods shop/db',
    'services shop/db',
    'datacenters.example.com fra1',
    'servers.example.com shop/a',
    'servers.example.com shop/b',
    'services.example.com shop/b',
    'zones.example.com red',
    'clusters.cluster.x-k8s.io shop/a',
  ];
  expect(restoreOrder(expected.toReversed().map(item)).map(({ text }) => text)).toEqual(expected);
});
