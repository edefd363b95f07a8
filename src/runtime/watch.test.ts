import { expect, onTestFinished, test, vi } from 'vitest';
import { setImmediate } from 'node:timers/promises';

import type { KubeObject } from '../json/kube-object.ts';
import { secrets } from '../kube/well-known.ts';
import { silent } from '../../test/support/runtime/fixtures.ts';
import { sendJson, startServer, status } from '../../test/support/kube/fake-api-server.ts';
import { createListedRest } from '../../test/support/runtime/listed-rest.ts';
import { createListeners } from './listeners.ts';
import { watch, type WatchOptions } from './watch.ts';

const secret = (namespace: string, name: string): KubeObject => ({
  metadata: { namespace, name, uid: `${namespace}-${name}`, resourceVersion: '1' },
});

function cluster(namespaces: readonly string[]) {
  const { rest, lists, listed } = createListedRest();
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const rollbacks = createListeners<[]>();
  return {
    lists,
    listed,
    rollbacks,
    watch: async (options: WatchOptions<KubeObject>) => {
      const watched = watch<KubeObject>({ rest, rollbacks, namespaces, log: silent }, options, stop.signal);
      await watched.whenSynced(stop.signal);
      return watched;
    },
  };
}

test('with namespaces, one store holds the objects of each of them', async () => {
  const { lists, listed, watch: follow } = cluster(['gatehouse-system', 'shop']);
  const [own, shop] = ['/api/v1/namespaces/gatehouse-system/secrets', '/api/v1/namespaces/shop/secrets'];
  lists.set(own, [secret('gatehouse-system', 'own')]);
  lists.set(shop, [secret('shop', 'db')]);
  const { store } = await follow({ resource: secrets });
  expect(listed.toSorted()).toEqual([own, shop]);
  expect(store.keys().toSorted()).toEqual(['gatehouse-system/own', 'shop/db']);
});

test('a list of one namespace removes no object of another', async () => {
  const { lists, rollbacks, watch: follow } = cluster(['shop', 'shop-2']);
  lists.set('/api/v1/namespaces/shop/secrets', [secret('shop', 'db'), secret('shop', 'old')]);
  lists.set('/api/v1/namespaces/shop-2/secrets', [secret('shop-2', 'db')]);
  const { store } = await follow({ resource: secrets });
  lists.set('/api/v1/namespaces/shop/secrets', [secret('shop', 'db')]);
  rollbacks.tell(); // all reflectors list again
  while (store.get('shop/old') !== undefined) await setImmediate();
  expect(store.keys().toSorted()).toEqual(['shop-2/db', 'shop/db']);
});

test('a watch says for how long it has been failing', async () => {
  let refuses = true;
  const server = await startServer(({ url }, response) => {
    if (refuses) sendJson(response, status(403, 'Forbidden'), 403);
    else if (url.searchParams.get('watch') === 'true') response.writeHead(200).flushHeaders();
    else sendJson(response, { metadata: { resourceVersion: '10' }, items: [] });
  });
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const rollbacks = createListeners<[]>();
  const context = { rest: server.rest(), rollbacks, namespaces: undefined, log: silent };
  const onFailure = vi.fn();
  const options = { resource: secrets, timing: { backoff: { baseMs: 10, maxMs: 20 } }, onFailure };
  const { failingMs } = watch<KubeObject>(context, options, stop.signal);
  expect(failingMs()).toBe(0);
  await expect.poll(() => onFailure.mock.calls.length, { interval: 5 }).toBeGreaterThan(2);
  expect(failingMs()).toBeGreaterThan(10); // the second and the third error do not begin again
  refuses = false;
  await expect.poll(failingMs, { interval: 5 }).toBe(0);
});
