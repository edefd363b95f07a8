import { onTestFinished, test, expect } from 'vitest';

import { conflict } from '../../machinery/failure.ts';
import { startGarbageCollector, type GarbageCollectorOptions } from './garbage-collector.ts';
import {
  createTestStorage,
  kindOf,
  ownedBy,
  settled,
} from '../../../../test/support/sandbox/test-storage.ts';

function start(overrides: Partial<GarbageCollectorOptions> = {}) {
  const world = createTestStorage();
  const errors: unknown[] = [];
  const served = new Set(['ConfigMap', 'Secret', 'Server', 'Namespace', 'Event']);
  const run = () => {
    const stop = startGarbageCollector({
      storage: world.storage,
      stored: () =>
        ['ConfigMap', 'Secret', 'Server'].flatMap((kind) => {
          const { place } = kindOf(kind);
          return world.storage.list(place).items.map((object) => ({ place, object }));
        }),
      findKind: (_apiVersion, kind) => (served.has(kind) ? kindOf(kind) : undefined),
      deleteObject: world.deleteObject,
      replaceObject: world.replaceObject,
      onError: (error) => errors.push(error),
      ...overrides,
    });
    onTestFinished(stop);
    return stop;
  };
  return { ...world, errors, served, run };
}

test('a dependent is deleted after its only owner, and so are its own dependents', async () => {
  const { run, add, delete: remove, find } = start();
  run();
  add('Server', 'db');
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'db')] });
  add('Secret', 'password', { ownerReferences: [ownedBy('ConfigMap', 'settings')] });

  remove('Server', 'db', 'Background');

  expect(find('ConfigMap', 'settings'), 'the answer to the deletion does not wait').toBeDefined();
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
  expect(find('Secret', 'password')).toBeUndefined();
});

test('a dependent whose owner exists is unchanged', async () => {
  const { run, add, find } = start();
  run();
  add('Server', 'db');
  const made = add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'db')] });
  await settled();
  expect(find('ConfigMap', 'settings')).toBe(made);
});

test('a dependent with another owner loses only the reference to the deleted owner', async () => {
  const { run, add, delete: remove, find } = start();
  run();
  add('Server', 'db');
  add('Server', 'web');
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'db'), ownedBy('Server', 'web')] });

  remove('Server', 'db', 'Background');
  await settled();

  expect(find('ConfigMap', 'settings')?.metadata.ownerReferences).toEqual([ownedBy('Server', 'web')]);
});

test.each([
  ['no object has its uid', ownedBy('Server', 'db', { uid: 'never-was' })],
  ['its uid belongs to an object with another name', ownedBy('Server', 'web', { uid: 'Server-db' })],
  ['its uid belongs to an object of another kind', ownedBy('Secret', 'db', { uid: 'Server-db' })],
  ['it is in another namespace', ownedBy('Server', 'far', { uid: 'Server-far' })],
])('an object created with an owner is collected if %s', async (_when, reference) => {
  const { run, add, find } = start();
  run();
  add('Server', 'db');
  add('Server', 'far', { namespace: 'elsewhere' });
  add('ConfigMap', 'settings', { ownerReferences: [reference] });
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
});

test('an owner in another namespace does not keep a dependent', async () => {
  const { run, add, find } = start();
  run();
  add('Server', 'far', { namespace: 'elsewhere' });
  add('ConfigMap', 'settings', {
    namespace: 'elsewhere',
    ownerReferences: [ownedBy('Server', 'far')],
  });
  await settled();
  expect(find('ConfigMap', 'settings', 'elsewhere')).toBeDefined();
});

test('a cluster-scoped owner may have dependents in every namespace', async () => {
  const { run, add, find, delete: remove } = start();
  run();
  add('Namespace', 'team');
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Namespace', 'team')] });
  await settled();
  expect(find('ConfigMap', 'settings')).toBeDefined();
  remove('Namespace', 'team', 'Background');
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
});

test('a cluster-scoped object with a namespaced owner is left alone', async () => {
  const { run, add, find } = start();
  run();
  add('Namespace', 'team', { ownerReferences: [ownedBy('Server', 'never-was')] });
  await settled();
  expect(find('Namespace', 'team')).toBeDefined();
});

test('an object is left alone while the kind of an owner is not served, and collected once it is', async () => {
  const { run, add, find, served } = start();
  served.delete('Server');
  run();
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'never-was')] });
  await settled();
  expect(find('ConfigMap', 'settings')).toBeDefined();

  served.add('Server');
  add('CustomResourceDefinition', 'servers.infra.example.com');
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
});

test('an object that lost its owner before the start is collected at the start', async () => {
  const { run, add, find } = start();
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'never-was')] });
  run();
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
});

test('events are not collected', async () => {
  const { run, add, find } = start();
  run();
  add('Event', 'started', { ownerReferences: [ownedBy('Server', 'never-was')] });
  await settled();
  expect(find('Event', 'started')).toBeDefined();
});

test('an orphaning deletion removes the reference from dependents and keeps them', async () => {
  const { run, add, find, delete: remove } = start();
  run();
  add('Server', 'db');
  add('Server', 'web');
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'db')] });
  add('Secret', 'password', { ownerReferences: [ownedBy('Server', 'db'), ownedBy('Server', 'web')] });

  remove('Server', 'db', 'Orphan');
  await settled();

  expect(find('Server', 'db')).toBeUndefined();
  expect(find('ConfigMap', 'settings')?.metadata.ownerReferences).toBeUndefined();
  expect(find('Secret', 'password')?.metadata.ownerReferences).toEqual([ownedBy('Server', 'web')]);
});

test('a foreground deletion waits for dependents that block it', async () => {
  const { run, add, find, change, delete: remove } = start();
  run();
  add('Server', 'db');
  add('ConfigMap', 'settings', {
    ownerReferences: [ownedBy('Server', 'db', { blockOwnerDeletion: true })],
    finalizers: ['example.com/hold'],
  });

  remove('Server', 'db', 'Foreground');
  await settled();
  expect(find('ConfigMap', 'settings')?.metadata.deletionTimestamp).toBeDefined();
  expect(find('Server', 'db')?.metadata.finalizers).toEqual(['foregroundDeletion']);

  change('ConfigMap', 'settings', { finalizers: undefined });
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
  expect(find('Server', 'db')).toBeUndefined();
});

test('a foreground deletion also deletes dependents that do not block it, without waiting for them', async () => {
  const { run, add, find, delete: remove } = start();
  run();
  add('Server', 'db');
  add('ConfigMap', 'settings', {
    ownerReferences: [ownedBy('Server', 'db')],
    finalizers: ['example.com/hold'],
  });
  remove('Server', 'db', 'Foreground');
  await settled();
  expect(find('Server', 'db')).toBeUndefined();
  expect(find('ConfigMap', 'settings')?.metadata.deletionTimestamp).toBeDefined();
});

test('a foreground deletion ends when a dependent stops blocking it', async () => {
  const { run, add, find, change, delete: remove } = start();
  run();
  add('Server', 'db');
  const reference = ownedBy('Server', 'db', { blockOwnerDeletion: true });
  add('ConfigMap', 'settings', { ownerReferences: [reference], finalizers: ['example.com/hold'] });
  remove('Server', 'db', 'Foreground');
  await settled();
  expect(find('Server', 'db')).toBeDefined();

  change('ConfigMap', 'settings', { ownerReferences: [{ ...reference, blockOwnerDeletion: false }] });
  await settled();
  expect(find('Server', 'db')).toBeUndefined();
});

test('a foreground deletion deletes the whole tree, leaves first', async () => {
  const { run, add, storage, delete: remove } = start();
  const blocking = { blockOwnerDeletion: true };
  run();
  add('Server', 'db');
  add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'db', blocking)] });
  add('Secret', 'password', { ownerReferences: [ownedBy('ConfigMap', 'settings', blocking)] });
  const gone: (string | undefined)[] = [];
  storage.watchAll((_place, { type, object }) => {
    if (type === 'DELETED') gone.push(object.metadata.name);
  });

  remove('Server', 'db', 'Foreground');
  await settled();

  expect(gone).toEqual(['password', 'settings', 'db']);
});

test('two objects that own each other can be deleted in the foreground', async () => {
  const { run, add, change, find, delete: remove } = start();
  const blocking = { blockOwnerDeletion: true };
  run();
  add('Server', 'a');
  add('Server', 'b', { ownerReferences: [ownedBy('Server', 'a', blocking)] });
  change('Server', 'a', { ownerReferences: [ownedBy('Server', 'b', blocking)] });

  remove('Server', 'a', 'Foreground');
  await settled();

  expect(find('Server', 'a')).toBeUndefined();
  expect(find('Server', 'b')).toBeUndefined();
});

test('a dependent with another owner does not block a foreground deletion', async () => {
  const { run, add, find, delete: remove } = start();
  run();
  add('Server', 'db');
  add('Server', 'web');
  add('ConfigMap', 'settings', {
    ownerReferences: [ownedBy('Server', 'db', { blockOwnerDeletion: true }), ownedBy('Server', 'web')],
  });
  remove('Server', 'db', 'Foreground');
  await settled();
  expect(find('Server', 'db')).toBeUndefined();
  expect(find('ConfigMap', 'settings')?.metadata.ownerReferences).toEqual([ownedBy('Server', 'web')]);
});

test('a rejected deletion is retried', async () => {
  let refusals = 1;
  const world = start({
    deleteObject: (place, key, options) => {
      refusals -= 1;
      if (refusals >= 0) throw conflict(place, key.name, 'not now');
      world.deleteObject(place, key, options);
    },
  });
  world.run();
  world.add('ConfigMap', 'settings', { ownerReferences: [ownedBy('Server', 'never-was')] });
  await expect.poll(() => world.find('ConfigMap', 'settings')).toBeUndefined();
  expect(world.errors).toHaveLength(1);
});

test('after stop nothing is collected', async () => {
  const { run, add, find } = start();
  const stop = run();
  add('ConfigMap', 'early', { ownerReferences: [ownedBy('Server', 'never-was')] });
  stop();
  add('ConfigMap', 'late', { ownerReferences: [ownedBy('Server', 'never-was')] });
  await settled();
  expect(find('ConfigMap', 'early')).toBeDefined();
  expect(find('ConfigMap', 'late')).toBeDefined();
});
