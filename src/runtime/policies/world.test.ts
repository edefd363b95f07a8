import { expect, test } from 'vitest';

import { resourceOf } from '../../../test/support/definitions.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource, NamedRef } from '../../kube/object.ts';
import { OutOfReachError } from '../../admission/policy/world.ts';
import { createWorld, withinReach, createOwners } from './world.ts';
import type { Discovery } from '../../kube/discovery.ts';

const ref = { group: 'infra.example.com', resource: 'datacenters', namespace: undefined, name: 'fra1' };
const version = (name: string) => ({ ...ref, version: name, kind: 'Datacenter', namespaced: false });
const signal = new AbortController().signal;
const noTargets = { store: () => undefined };
const restoreEvidence = () => Promise.resolve(undefined);

/** An API server that serves one version, and a replica whose discovery cache holds v1. */
function worldOf(served: string | undefined, exists: boolean) {
  let known: string | undefined = 'v1';
  const client: Pick<KubeClient, 'get' | 'getMetadata'> = {
    get: () => Promise.reject(new Error('unexpected call')),
    getMetadata: (resource) =>
      Promise.resolve(exists && resource.version === served ? { metadata: { name: ref.name } } : undefined),
  };
  const resolve = () => Promise.resolve(known === undefined ? undefined : version(known));
  const discovery = { resolve, forget: () => (known = served) };
  return createWorld(client, client, discovery, noTargets, { restoreEvidence });
}

test.each([
  ['an existing target is confirmed', 'v1', true],
  ['a missing target is confirmed to be missing', 'v1', false],
  ['a target is not missing just because the API server has stopped serving its known version', 'v2', true],
])('%s', async (_what, served, exists) => {
  const world = worldOf(served, exists);
  const expected = exists ? { metadata: { name: 'fra1' } } : undefined;
  expect(await world.confirm(ref, signal)).toEqual(expected);
});

test('an object of another scope than its kind does not exist, and is not read', async () => {
  const world = worldOf('v1', true);
  expect(await world.confirm({ ...ref, namespace: 'shop' }, signal)).toBeUndefined();
  expect(await world.read({ ...ref, namespace: 'shop' }, signal)).toBeUndefined();
});

test('a target of an unserved kind is unknown', async () => {
  const world = worldOf(undefined, false);
  await expect(world.confirm(ref, signal)).rejects.toThrow(/does not serve datacenters/);
});

test.each<[string, readonly string[] | undefined, string | undefined]>([
  ['any served version where the policy accepts all', undefined, 'v2'],
  ['the preferred version where the policy accepts it', ['v1', 'v2'], 'v2'],
  ['the version that the policy names', ['v1'], 'v1'],
])('an object is read in %s', async (_which, versions, expected) => {
  expect((await versionedWorld(['v1', 'v2']).read(ref, signal, versions))?.apiVersion).toBe(expected);
});

test('an object is not missing just because the version that the policy names is not served', async () => {
  const world = versionedWorld(['v2']);
  await expect(world.read(ref, signal, ['v1'])).rejects.toThrow(/does not serve .* in version v1/);
});

/** An API server that prefers v2 and has the object in these versions. */
function versionedWorld(versions: readonly string[]) {
  const get = ({ version: asked }: Resource) =>
    Promise.resolve(versions.includes(asked) ? { apiVersion: asked, metadata: {} } : undefined);
  // The client returns the type that its caller expects.
  const exact = { get: get as unknown as KubeClient['get'] };
  const client = { get: () => Promise.reject(new Error('unexpected call')), getMetadata: get };
  const discovery = { resolve: () => Promise.resolve(version('v2')), forget: () => undefined };
  return createWorld(client, exact, discovery, noTargets, { restoreEvidence });
}

test('with --namespaces, an object elsewhere is out of reach', async () => {
  const world = withinReach(worldOf('v1', true), ['shop']);
  const elsewhere = { ...ref, namespace: 'other' };
  for (const attempt of [world.confirm(elsewhere, signal), world.read(elsewhere, signal)]) {
    await expect(attempt).rejects.toBeInstanceOf(OutOfReachError);
    await expect(attempt).rejects.toThrow('Gatehouse does not read namespace other');
  }
  expect(await world.confirm(ref, signal)).toBeDefined();
  const within = world.confirm({ ...ref, namespace: 'shop' }, signal);
  expect(await within.catch((error: unknown) => error)).not.toBeInstanceOf(OutOfReachError);
});

const rack = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1' };
const racks = (served: string, namespaced = true) =>
  resourceOf('infra.example.com', 'racks', 'Rack', namespaced, served);

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
    forget: () => void (learnt += 1),
  };
  const isOurs = () => false;
  const owners = createOwners({ getMetadata }, discovery, isOurs, () => time);
  return { owners, reads, kinds, forgotten: () => learnt, pass: (ms: number) => (time += ms) };
}

test('an owner is read in the namespace of its dependent', async () => {
  const { owners, reads, kinds } = ownersOf([racks('v1')]);
  const found = { uid: 'u1', apiVersion: 'infra.example.com/v1', labels: { a: 'b' } };
  expect(await owners.read(rack, 'shop', signal)).toMatchObject(found);
  expect(kinds).toEqual([{ group: 'infra.example.com', version: 'v1', kind: 'Rack' }]);
  expect(reads).toEqual([['v1', { namespace: 'shop', name: 'r1' }]]);
});

test('a cluster-scoped owner is read without a namespace, and a namespaced object cannot own a cluster-scoped one', async () => {
  const wide = ownersOf([racks('v1', false)]);
  await wide.owners.read(rack, 'shop', signal);
  expect(wide.reads).toEqual([['v1', { namespace: undefined, name: 'r1' }]]);
  const narrow = ownersOf([racks('v1')]);
  expect(await narrow.owners.read(rack, undefined, signal)).toBeUndefined();
  expect(narrow.reads).toEqual([]);
});

test('an owner of an unserved kind of the core group is not found', async () => {
  const { owners, kinds } = ownersOf([undefined]);
  expect(await owners.read({ apiVersion: 'v1', kind: 'Secret', name: 's' }, 'shop', signal)).toBeUndefined();
  expect(kinds).toEqual([{ group: '', version: 'v1', kind: 'Secret' }]);
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
