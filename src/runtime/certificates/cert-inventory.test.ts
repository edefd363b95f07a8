import { expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { base64, firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { toStoredSecret } from '../../pki/serving-certs/facts.ts';
import { createCertInventory } from './cert-inventory.ts';
import { createWorld, serviceNamed } from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const first = await firstAuthority(start);
const second = await rotated(first, start);
const idOf = ({ generations: [newest] }: Authority) => newest?.id ?? '';
/** The Services, each with its own cert. */
async function worldWith(authority: Authority, ...names: readonly string[]) {
  const world = createWorld(authority, start);
  for (const name of names) {
    world.add(serviceNamed(name, { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` }));
    await world.run(name);
  }
  return world;
}

test('the certs of a generation are counted until the last one is replaced', async () => {
  const world = await worldWith(first, 'a', 'b', 'c');
  const generations = () => world.inventory.all().map(({ generation }) => generation);
  const counts = () => [first, second].map((one) => generations().filter((id) => id === idOf(one)).length);
  expect(counts()).toEqual([3, 0]);
  world.authority = second;
  expect(counts()).toEqual([3, 0]);
  await world.run('a');
  await world.run('b');
  expect(counts()).toEqual([1, 2]);
  await world.run('c');
  expect(counts()).toEqual([0, 3]);
});

test.each([
  ['the store is synced', { synced: () => false }],
  ['an authority exists', { authority: () => undefined }],
])('until %s no cert is counted', (_what, change) => {
  const { synced, authority } = { synced: () => true, authority: () => first, ...change };
  const stores = { secrets: () => [], secret: () => undefined, claimants: () => [], synced };
  const inventory = createCertInventory(stores, authority);
  expect(inventory.all()).toEqual([]);
});

test('a cert of an unknown generation is counted once the generation is known', async () => {
  const world = await worldWith(second, 'a');
  world.authority = first;
  expect(world.inventory.all()).toMatchObject([{ generation: undefined }]);
  world.authority = second;
  expect(world.inventory.all()).toMatchObject([{ generation: idOf(second) }]);
});

test('thousands of certs are checked in batches', async () => {
  const { chain, keyPair } = await serverOf(first, start);
  const data = { 'tls.crt': base64(chain), 'tls.key': base64(keyPair.privateKey) };
  const secrets = Array.from({ length: 1_200 }, () => toStoredSecret({ data }));
  const inventory = createCertInventory(
    { secrets: () => secrets, secret: () => undefined, claimants: () => [], synced: () => true },
    () => first,
  );
  const counts = [1, 2, 3].map(() => inventory.all().length);
  expect(counts).toEqual([500, 1_000, 1_200]);
});

test('a Secret whose ca.crt lacks the root of a new generation is known, unless no Service asks for it', async () => {
  const world = await worldWith(first, 'a', 'b', 'c');
  world.authority = second;
  const lagging = () => world.inventory.secretsWithout(idOf(second));
  expect(world.inventory.secretsWithout(idOf(first))).toEqual([]);
  expect(lagging()).toEqual(['Secret prod/a-tls', 'Secret prod/b-tls', 'Secret prod/c-tls']);
  await world.run('a');
  world.services.delete('prod/b');
  expect(lagging()).toEqual(['Secret prod/c-tls']);
  expect(world.inventory.secretsWithout('unknown')).toBeUndefined();
});
