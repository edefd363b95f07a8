import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';

import { Unreadable } from '../../admission/handlers/errors.ts';
import { ApiError } from '../../../test/support/runtime/fixtures.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { createHandlerWorld } from './handlers.ts';
import { loadModules } from './load-handlers.ts';

const KIND = { group: 'infra.example.com', resource: 'racks', version: undefined, metadataOnly: false };
const PINNED = { ...KIND, version: 'v1' };
const { signal } = new AbortController();
const place = { namespace: 'shop', name: 'a' };

const served = (version: string): Resource => ({ ...KIND, version, kind: 'Rack', namespaced: true });
const rack = (version: string): KubeObject =>
  ({ apiVersion: `infra.example.com/${version}`, metadata: { name: 'a', managedFields: [] } }) as KubeObject;

/**
 * @param versions the consecutive answers of discovery
 * @param stored the versions in which the API server returns the object
 */
function worldOf(versions: readonly (string | undefined)[], stored: readonly string[]) {
  const asked: string[] = [];
  const answers = [...versions];
  let known = answers.shift();
  const get = (verb: string) => (resource: Resource) => {
    asked.push(`${verb} ${resource.version}`);
    return Promise.resolve(stored.includes(resource.version) ? rack(resource.version) : undefined);
  };
  const client = {
    get: get('get'),
    getMetadata: get('getMetadata'),
    list: (resource: Resource) => {
      asked.push(`list ${resource.version}`);
      if (resource.version === 'v1') return Promise.resolve({ metadata: {}, items: [] });
      return Promise.reject(new ApiError(404, 'not found'));
    },
    listAll: (resource: Resource, options: { readonly metadataOnly?: boolean }) => {
      asked.push(`listAll ${resource.version} ${String(options.metadataOnly)}`);
      return Promise.resolve({ metadata: {}, items: [rack(resource.version)] });
    },
  };
  const discovery = {
    resolve: () => Promise.resolve(known === undefined ? undefined : served(known)),
    forget: () => (known = answers.shift() ?? known),
  };
  const stores = { want: () => undefined, find: () => undefined, select: () => undefined };
  const world = createHandlerWorld(client as unknown as KubeClient, discovery, stores); // the members that it uses
  return { world, asked };
}

describe('a live read', () => {
  test('fetches only metadata where that is enough', async () => {
    const { world, asked } = worldOf(['v2'], ['v2']);
    await world.read({ ...KIND, metadataOnly: true }, place, signal);
    const where = { namespace: 'shop', labelSelector: undefined };
    await world.query({ ...KIND, metadataOnly: true }, where, signal);
    expect(asked).toEqual(['getMetadata v2', 'listAll v2 true']);
  });

  test('is repeated when the API server has stopped serving the known version', async () => {
    const { world, asked } = worldOf(['v1beta1', 'v1'], ['v1']);
    const found = { apiVersion: 'infra.example.com/v1', metadata: { name: 'a' } }; // without managedFields
    expect(await world.read(KIND, place, signal)).toEqual(found);
    expect(asked).toEqual(['get v1beta1', 'get v1']);
  });

  test('reports a missing object only for a served version', async () => {
    const { world, asked } = worldOf(['v2', 'v2'], []);
    expect(await world.read(KIND, place, signal)).toBeUndefined();
    expect(await world.read(PINNED, place, signal)).toBeUndefined();
    await expect(world.read({ ...KIND, version: 'v0' }, place, signal)).rejects.toBeInstanceOf(Unreadable);
    expect(asked).toEqual(['get v2', 'get v1', 'list v1', 'get v0', 'list v0']);
  });

  test('queries discovery again for a kind that was not served a moment ago', async () => {
    expect(await worldOf([undefined, 'v1'], ['v1']).world.isNamespaced(KIND, signal)).toBe(true);
    const unserved = worldOf([undefined], []).world.isNamespaced(KIND, signal);
    await expect(unserved).rejects.toBeInstanceOf(Unreadable);
  });

  test('of thousands of names queries discovery once for all', async () => {
    const { world, asked } = worldOf([undefined, 'v1', 'v2'], ['v1']);
    await Promise.all(Array.from({ length: 3_000 }, () => world.read(KIND, place, signal)));
    expect(new Set(asked)).toEqual(new Set(['get v1']));
  });
});

test('a relative folder is looked for where the process was started', async () => {
  const from = mkdtempSync(join(tmpdir(), 'gatehouse-handlers-'));
  onTestFinished(() => rmSync(from, { recursive: true }));
  await expect(loadModules('./missing', from)).rejects.toThrow('./missing: the folder does not exist');
});

test.each([
  ['Object.create(null)', 'threw something that cannot be shown'],
  ['undefined', 'threw undefined'],
])('a module that throws %s is named', async (thrown, problem) => {
  const from = mkdtempSync(join(tmpdir(), 'gatehouse-handlers-'));
  onTestFinished(() => rmSync(from, { recursive: true }));
  writeFileSync(join(from, 'a.mjs'), `throw ${thrown};`);
  await expect(loadModules(from, from)).rejects.toThrow(`${join(from, 'a.mjs')}: ${problem}`);
});
