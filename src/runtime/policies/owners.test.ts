import { expect, test } from 'vitest';

import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { NamedRef, Resource } from '../../kube/object.ts';
import { createOwners } from './world.ts';

const signal = new AbortController().signal;
const rack = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1' };
const racks = (version: string, namespaced = true): Resource => ({
  group: 'infra.example.com',
  version,
  resource: 'racks',
  kind: 'Rack',
  namespaced,
});

/** @param known the answers of discovery, before and after each `forget` */
function ownersOf(known: readonly (Resource | undefined)[], servedVersion = 'v1', exists = true) {
  const reads: (readonly [version: string, ref: NamedRef])[] = [];
  const kinds: object[] = [];
  let learnt = 0;
  let time = 0;
  const getMetadata: KubeClient['getMetadata'] = (resource, ref) => {
    reads.push([resource.version, ref]);
    const found = exists && resource.version === servedVersion;
    return Promise.resolve(found ? { metadata: { uid: 'u1', labels: { a: 'b' } } } : undefined);
  };
  const discovery: Pick<Discovery, 'resolveKind' | 'forget'> = {
    resolveKind: (kind) => {
      kinds.push(kind);
      return Promise.resolve(known[Math.min(learnt, known.length - 1)]);
    },
    forget: () => {
      learnt += 1;
    },
  };
  const owners = createOwners(
    { getMetadata },
    discovery,
    () => false,
    () => time,
  );
  return {
    owners,
    reads,
    kinds,
    forgotten: () => learnt,
    pass: (ms: number) => {
      time += ms;
    },
  };
}

test('an owner is read in the namespace of its dependent', async () => {
  const { owners, reads, kinds } = ownersOf([racks('v1')]);
  expect(await owners.read(rack, 'shop', signal)).toMatchObject({
    uid: 'u1',
    apiVersion: 'infra.example.com/v1',
    labels: { a: 'b' },
  });
  expect(kinds).toEqual([{ group: 'infra.example.com', version: 'v1', kind: 'Rack' }]);
  expect(reads).toEqual([['v1', { namespace: 'shop', name: 'r1' }]]);
});

test('a cluster-scoped owner has no namespace, and a namespaced object cannot own a cluster-scoped one', async () => {
  const wide = ownersOf([racks('v1', false)]);
  await wide.owners.read(rack, 'shop', signal);
  expect(wide.reads).toEqual([['v1', { namespace: undefined, name: 'r1' }]]);
  const narrow = ownersOf([racks('v1')]);
  expect(await narrow.owners.read(rack, undefined, signal)).toBeUndefined();
  expect(narrow.reads).toEqual([]);
});

test('an owner of the core group is found, and one of an unserved kind is not', async () => {
  const { owners, kinds, reads } = ownersOf([undefined]);
  expect(await owners.read({ apiVersion: 'v1', kind: 'Secret', name: 's' }, 'shop', signal)).toBeUndefined();
  expect(kinds).toEqual([{ group: '', version: 'v1', kind: 'Secret' }]);
  expect(reads).toEqual([]);
});

test('a missing owner is looked up again in the version that is served now', async () => {
  const { owners } = ownersOf([racks('v1'), racks('v2')], 'v2');
  expect(await owners.read(rack, 'shop', signal)).toMatchObject({ apiVersion: 'infra.example.com/v2' });
});

test('thousands of missing owners do not query discovery each time', async () => {
  const { owners, forgotten, pass } = ownersOf([racks('v1')], 'v1', false);
  for (let n = 0; n < 10; n += 1) await owners.read(rack, 'shop', signal);
  expect(forgotten()).toBe(1);
  pass(5_000);
  await owners.read(rack, 'shop', signal);
  expect(forgotten()).toBe(2);
});
