import { expect, test } from 'vitest';
import { base64, firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { createWorld, serviceNamed } from '../../../test/support/runtime/serving-certs.ts';
import { resolveConfig } from '../../config/config.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { createGeneration } from '../../pki/authority/generation.ts';
import { signTrial } from '../../pki/authority/trial.ts';
import { toStoredSecret } from '../../pki/serving-certs/facts.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { createCertInventory, domainsOfNewCa, trialScope } from './serving-cert-stores.ts';

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

test('thousands of certs are checked in batches', async () => {
  const { chain, keyPair } = await serverOf(first, start);
  const data = { 'tls.crt': base64(chain), 'tls.key': base64(keyPair.privateKey) };
  const secrets = Array.from({ length: 1_200 }, () => toStoredSecret({ data }));
  const inventory = createCertInventory(
    { secrets: () => secrets, service: () => undefined, claimants: () => [{}], synced: () => true },
    { request: () => ({ kind: 'none' }), claims: () => [] },
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
  world.services.remove('prod/b');
  expect(lagging()).toEqual(['Secret prod/c-tls']);
  expect(world.inventory.secretsWithout('unknown')).toBeUndefined();
});

type Settings = Parameters<typeof trialScope>[0];

const defaults = resolveConfig({}, {});
const plain: Settings = { ...defaults, ca: { ...defaults.ca, nameConstraints: true } };

test.each<[string, Partial<Settings['servingCerts']>, string | undefined]>([
  ['the default settings', {}, undefined],
  ['short names, which certs of such a CA never have', { shortNames: true }, undefined],
  ['an additional domain', { dnsSuffixes: ['apps.example.com'] }, undefined],
  ['a domain for one namespace', { namespaceSuffixes: new Map([['shop.example.com', 'shop']]) }, undefined],
  ['another cluster domain', {}, 'k8s.example.com'],
])('a new CA with name constraints passes its trial with %s', async (_what, change, clusterDomain) => {
  const config = { ...plain, clusterDomain, servingCerts: { ...plain.servingCerts, ...change } };
  const keyPair = await generateKeyPair('ECDSA-P256');
  const now = new Date();
  const domains = domainsOfNewCa(config);
  const pending = await createGeneration({ keyPair, serial: randomSerial(), now, domains });
  expect(await signTrial(pending, trialScope(config, []), now)).toContain('BEGIN CERTIFICATE');
  const other = { ...config, servingCerts: { ...config.servingCerts, dnsSuffixes: ['example.org'] } };
  await expect(signTrial(pending, trialScope(other, []), now)).rejects.toThrow('exclude name.example.org');
});
