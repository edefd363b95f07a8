import { expect, test } from 'vitest';

import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { OutOfReachError } from '../../admission/policy/world.ts';
import { createWorld, withinReach } from './world.ts';

const ref = { group: 'infra.example.com', resource: 'datacenters', namespace: undefined, name: 'fra1' };
const version = (name: string): Resource => ({
  ...ref,
  version: name,
  kind: 'Datacenter',
  namespaced: false,
});
const signal = new AbortController().signal;
const noTargets = { store: () => undefined };
const restoreEvidence = () => Promise.resolve(undefined);

/** An API server that serves one version, and a replica whose discovery cache holds another. */
function worldOf({
  remembered,
  served,
  exists,
}: {
  remembered: string;
  served: string | undefined;
  exists: boolean;
}) {
  let known: string | undefined = remembered;
  const client: Pick<KubeClient, 'get' | 'getMetadata'> = {
    get: () => Promise.reject(new Error('unexpected call')),
    getMetadata: (resource) =>
      Promise.resolve(exists && resource.version === served ? { metadata: { name: ref.name } } : undefined),
  };
  const discovery = {
    resolve: () => Promise.resolve(known === undefined ? undefined : version(known)),
    forget: () => {
      known = served;
    },
  };
  return createWorld(client, client, discovery, noTargets, { restoreEvidence });
}

test.each([
  ['an existing target is confirmed', 'v1', true],
  ['a missing target is confirmed to be missing', 'v1', false],
  ['a target is not missing just because its known version is no longer served', 'v2', true],
])('%s', async (_what, served, exists) => {
  const world = worldOf({ remembered: 'v1', served, exists });
  const expected = exists ? { metadata: { name: 'fra1' } } : undefined;
  expect(await world.confirm(ref, signal)).toEqual(expected);
});

test('an object of another scope than its kind does not exist, and is not read', async () => {
  const world = worldOf({ remembered: 'v1', served: 'v1', exists: true });
  expect(await world.confirm({ ...ref, namespace: 'shop' }, signal)).toBeUndefined();
  expect(await world.read({ ...ref, namespace: 'shop' }, signal)).toBeUndefined();
});

test('a target of a kind that is no longer served is unknown', async () => {
  const world = worldOf({ remembered: 'v1', served: undefined, exists: false });
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
  const world = withinReach(worldOf({ remembered: 'v1', served: 'v1', exists: true }), ['shop']);
  const elsewhere = { ...ref, namespace: 'other' };
  for (const attempt of [world.confirm(elsewhere, signal), world.read(elsewhere, signal)]) {
    await expect(attempt).rejects.toBeInstanceOf(OutOfReachError);
    await expect(attempt).rejects.toThrow('Gatehouse does not read namespace other');
  }
  expect(await world.confirm(ref, signal)).toBeDefined();
  const within = world.confirm({ ...ref, namespace: 'shop' }, signal);
  expect(await within.catch((error: unknown) => error)).not.toBeInstanceOf(OutOfReachError);
});
