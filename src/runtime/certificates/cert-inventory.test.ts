import { beforeAll, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, DAY } from '../../pki/durations.ts';
import { base64, firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { toStoredSecret } from '../../pki/serving-certs/facts.ts';
import { createCertInventory } from './cert-inventory.ts';
import { createWorld, serviceNamed } from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
let first: Authority;
let second: Authority;
beforeAll(async () => {
  first = await firstAuthority(start);
  second = await rotated(first, start);
});
const idOf = ({ generations: [newest] }: Authority) => newest?.id ?? '';
const named = (name: string) =>
  serviceNamed(name, { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` });

test('T8: the certs of a generation are counted until the last one is replaced', async () => {
  const world = createWorld(first, start);
  const counts = () => [first, second].map((one) => world.inventory.liveCertsOf(idOf(one)));
  for (const name of ['a', 'b', 'c']) {
    world.add(named(name));
    await world.run(name);
  }
  expect(counts()).toEqual([3, 0]);
  world.authority = second;
  expect(counts()).toEqual([3, 0]);
  await world.run('a');
  await world.run('b');
  expect(counts()).toEqual([1, 2]);
  await world.run('c');
  expect(counts()).toEqual([0, 3]);
  expect(world.inventory.all().map(({ generation }) => generation)).toEqual(Array(3).fill(idOf(second)));
});

test('an expired cert keeps no generation alive', async () => {
  const world = createWorld(first, start);
  world.add(named('a'));
  await world.run('a');
  world.now = after(start, 91 * DAY);
  expect(world.inventory.liveCertsOf(idOf(first))).toBe(0);
});

test.each([
  ['the store is synced', { synced: () => false }],
  ['an authority exists', { authority: () => undefined }],
])('until %s the count is unknown rather than zero', (_what, change) => {
  const { synced, authority } = { synced: () => true, authority: () => first, ...change };
  const stores = { secrets: () => [], secret: () => undefined, synced };
  const inventory = createCertInventory(stores, authority, () => start);
  expect(inventory.liveCertsOf(idOf(first))).toBeUndefined();
  expect(inventory.all()).toEqual([]);
});

test('a cert of an unknown generation is counted once the generation is known', async () => {
  const world = createWorld(second, start);
  world.add(named('a'));
  await world.run('a');
  world.authority = first;
  expect(world.inventory.all()).toMatchObject([{ generation: undefined }]);
  world.authority = second;
  expect(world.inventory.all()).toMatchObject([{ generation: idOf(second) }]);
});

test('thousands of certs are checked in batches, and the count is unknown until all are checked', async () => {
  const { chain, keyPair } = await serverOf(first, start);
  const data = { 'tls.crt': base64(chain), 'tls.key': base64(keyPair.privateKey) };
  const secrets = Array.from({ length: 1_200 }, () => toStoredSecret({ data }));
  const inventory = createCertInventory(
    { secrets: () => secrets, secret: () => undefined, synced: () => true },
    () => first,
    () => start,
  );
  const counts = [1, 2, 3].map(() => inventory.liveCertsOf(idOf(first)));
  expect(counts).toEqual([undefined, undefined, 1_200]);
});
