import { expect, test } from 'vitest';
import type { KubeObject } from '../json/kube-object.ts';
import { createStore } from './store.ts';

interface Server extends KubeObject {
  readonly spec: { readonly datacenter: string; readonly tags: string[] };
}

const server = (name: string, datacenter: string): Server => ({
  metadata: { name, namespace: 'a' },
  spec: { datacenter, tags: ['x'] },
});

const servers = () => createStore<Server>({ indexes: { datacenter: ({ spec }) => [spec.datacenter] } });

test('an object is found by its key and its indexes, and moves when its values change', () => {
  const store = servers();
  store.set('a/one', server('one', 'prague'));
  store.set('a/two', server('two', 'prague'));
  store.set('a/one', server('one', 'brno'));
  expect(store.byIndex('datacenter', 'prague').map((o) => o.metadata?.name)).toEqual(['two']);
  expect(store.byIndex('datacenter', 'brno')).toEqual([store.get('a/one')]);
  store.delete('a/one');
  expect(store.byIndex('datacenter', 'brno')).toEqual([]);
  expect([store.get('a/one'), store.list().length]).toEqual([undefined, 1]);
});

test('objects in the store are frozen at every level', () => {
  const store = servers();
  store.set('a/one', server('one', 'prague'));
  expect(() => store.get('a/one')?.spec.tags.push('y')).toThrow(TypeError);
});

test('an object that is ten thousand levels deep is frozen completely', () => {
  let bottom: object = { leaf: true };
  const leaf = bottom;
  for (let i = 0; i < 10_000; i++) bottom = { inner: bottom };
  createStore().set('deep', { metadata: { name: 'deep' }, ...bottom });
  expect(Object.isFrozen(leaf)).toBe(true);
});

test('an index function that throws leaves store and indexes consistent', () => {
  const store = createStore<Server>({
    indexes: {
      datacenter: ({ spec }) => [spec.datacenter],
      picky: ({ spec }) => {
        if (spec.datacenter === 'brno') throw new Error('no');
        return [];
      },
    },
  });
  store.set('a/one', server('one', 'prague'));
  expect(() => store.set('a/one', server('one', 'brno'))).toThrow('no');
  expect(store.byIndex('datacenter', 'prague')).toEqual([store.get('a/one')]);
});
