import { expect, test } from 'vitest';

import { ofJson, withMeta, type ApiObject } from '../../machinery/api-object.ts';
import {
  CLEANUP_FINALIZER,
  conditionsOf,
  DEFINITIONS,
  isConditionTrue,
} from '../../machinery/crd/definition.ts';
import { definition, NAMES, NOW } from '../../../../test/support/sandbox/crd.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import { startDefinitionsController } from './definitions.ts';

const SERVERS: Place = { group: 'infra.example.com', resource: 'servers' };
const NAME = 'servers.infra.example.com';

const versionOf = ({ metadata }: ApiObject) => metadata.resourceVersion ?? '';

function running() {
  const storage = createStorage();
  const deleteAll = (place: Place) => {
    for (const object of storage.list(place).items) {
      const { namespace = '', name = '', finalizers = [] } = object.metadata;
      if (finalizers.length === 0) storage.remove(place, { namespace, name }, versionOf(object));
      else storage.replace(place, withMeta(object, { deletionTimestamp: NOW }), versionOf(object));
    }
  };
  const stop = startDefinitionsController(storage, () => NOW, deleteAll);
  return { storage, stop };
}

const find = (storage: Storage, name = NAME) => storage.get(DEFINITIONS, { namespace: '', name });

function read(storage: Storage, name = NAME): ApiObject {
  const crd = find(storage, name);
  if (crd === undefined) throw new Error(`definition ${name} does not exist`);
  return crd;
}

const conditions = (storage: Storage, name?: string) =>
  conditionsOf(read(storage, name)).map(({ type, status }) => `${type}=${status}`);

/** Waits for all pending microtasks. */
const settled = () => Promise.resolve();

/** Marks the definition as a DELETE request does. */
function markForDeletion(storage: Storage, others: readonly string[] = []) {
  const crd = read(storage);
  const finalizers = [CLEANUP_FINALIZER, ...others];
  storage.replace(DEFINITIONS, withMeta(crd, { deletionTimestamp: NOW, finalizers }), versionOf(crd));
}

const server = (name: string, finalizers: readonly string[] = []) =>
  ofJson({
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { namespace: 'prod', name, ...(finalizers.length === 0 ? {} : { finalizers }) },
  });

test('a new definition is established after the next microtask', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  await settled();
  expect(conditions(storage)).toEqual(['NamesAccepted=True', 'Established=True']);
});

test('a definition that existed before the controller started is established', async () => {
  const storage = createStorage();
  storage.create(DEFINITIONS, definition());
  startDefinitionsController(
    storage,
    () => NOW,
    () => undefined,
  );
  await settled();
  expect(isConditionTrue(read(storage), 'Established')).toBe(true);
});

test('an established definition is written only once', async () => {
  const { storage } = running();
  const { metadata } = storage.create(DEFINITIONS, definition());
  await settled();
  await settled();
  expect(storage.revision()).toBe(Number(metadata.resourceVersion) + 1);
});

test('of two definitions with the same kind the first is accepted, and the second once the first is deleted', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  storage.create(
    DEFINITIONS,
    definition({ names: { ...NAMES, plural: 'machines', singular: 'm', shortNames: [] } }),
  );
  await settled();
  const second = 'machines.infra.example.com';
  expect(conditions(storage, second)).toEqual(['NamesAccepted=False', 'Established=False']);

  storage.remove(DEFINITIONS, { namespace: '', name: NAME }, versionOf(read(storage)));
  await settled();
  expect(conditions(storage, second)).toEqual(['NamesAccepted=True', 'Established=True']);
});

test('a deleted definition deletes its objects', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  await settled();
  storage.create(SERVERS, server('a'));
  storage.create(SERVERS, server('b'));

  markForDeletion(storage);
  await settled();
  expect(storage.count(SERVERS)).toBe(0);
  expect(find(storage)).toBeUndefined();
});

test('a deleted definition waits for an object with a finalizer', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  await settled();
  storage.create(SERVERS, server('a'));
  storage.create(SERVERS, server('held', ['example.com/hold']));

  markForDeletion(storage);
  await settled();
  expect(storage.count(SERVERS)).toBe(1);
  expect(conditions(storage)).toContain('Terminating=True');

  const [held = server('held')] = storage.list(SERVERS).items;
  storage.remove(SERVERS, { namespace: 'prod', name: 'held' }, versionOf(held));
  await settled();
  expect(find(storage)).toBeUndefined();
});

test('another finalizer keeps the definition after the cleanup', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  await settled();
  markForDeletion(storage, ['example.com/hold']);
  await settled();
  expect(read(storage).metadata.finalizers).toEqual(['example.com/hold']);
  expect(conditionsOf(read(storage)).at(-1)).toMatchObject({
    type: 'Terminating',
    status: 'False',
    reason: 'InstanceDeletionCompleted',
  });
});

test('a definition that was never established does not delete the objects of the definition that it conflicts with', async () => {
  const { storage } = running();
  storage.create(DEFINITIONS, definition());
  await settled();
  storage.create(SERVERS, server('a'));
  const rival = 'machines.infra.example.com';
  storage.create(DEFINITIONS, definition({ names: { ...NAMES, plural: 'machines' } }));
  await settled();
  const crd = read(storage, rival);
  const marked = withMeta(crd, { deletionTimestamp: NOW, finalizers: [CLEANUP_FINALIZER] });
  storage.replace(DEFINITIONS, marked, versionOf(crd));
  await settled();
  expect(find(storage, rival)).toBeUndefined();
  expect(storage.count(SERVERS)).toBe(1);
});

test('after stop the controller writes nothing', async () => {
  const { storage, stop } = running();
  storage.create(DEFINITIONS, definition());
  stop();
  await settled();
  expect(conditions(storage)).toEqual([]);
});
