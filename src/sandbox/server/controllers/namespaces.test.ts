import { expect, onTestFinished, test } from 'vitest';

import { isJsonObject } from '../../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { forbidden } from '../../machinery/failure.ts';
import { startNamespaceController, type NamespaceControllerOptions } from './namespaces.ts';
import { createTestStorage, kindOf, settled } from '../../../../test/support/sandbox/test-storage.ts';

const NAMESPACES = kindOf('Namespace').place;
const PLACES = [kindOf('ConfigMap').place, kindOf('Server').place];

function start(overrides: Partial<NamespaceControllerOptions> = {}) {
  const world = createTestStorage();
  const errors: unknown[] = [];
  const options: NamespaceControllerOptions = {
    storage: world.storage,
    namespacedPlaces: () => PLACES,
    deleteAllIn: (place, namespace) => {
      for (const { metadata } of world.storage.list(place, { namespace }).items) {
        world.deleteObject(place, { namespace, name: metadata.name ?? '' });
      }
    },
    replaceObject: world.replaceObject,
    now: () => '2026-01-01T00:00:00Z',
    onError: (error) => errors.push(error),
    ...overrides,
  };
  const run = () => {
    const stop = startNamespaceController(options);
    onTestFinished(stop);
    return stop;
  };
  const addNamespace = (finalizers: readonly string[] = ['kubernetes']) => {
    world.storage.create(
      NAMESPACES,
      ofJson({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: 'shop', uid: 'shop' },
        spec: { finalizers },
        status: { phase: 'Active' },
      }),
    );
  };
  const mark = (more: Parameters<typeof withMeta>[1] = {}) => {
    const live = namespace();
    if (live === undefined) throw new Error('the namespace does not exist');
    const marked = withMeta(live, { deletionTimestamp: '2026-01-01T00:00:00Z', ...more });
    world.storage.replace(NAMESPACES, marked, live.metadata.resourceVersion ?? '');
  };
  const namespace = () => world.find('Namespace', 'shop');
  return { ...world, errors, run, addNamespace, mark, namespace };
}

function conditionOf(namespace: ApiObject | undefined, type: string): unknown {
  const status = namespace === undefined ? undefined : toJson(namespace).status;
  const conditions = isJsonObject(status) && Array.isArray(status.conditions) ? status.conditions : [];
  return conditions.find((one) => isJsonObject(one) && one.type === type);
}

test('a deleted namespace is removed with its content, and nothing else is', async () => {
  const { run, add, addNamespace, mark, find, namespace } = start();
  run();
  addNamespace();
  add('ConfigMap', 'settings');
  add('Server', 'db');
  add('ConfigMap', 'settings', { namespace: 'elsewhere' });

  mark();
  await settled();

  expect(namespace()).toBeUndefined();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
  expect(find('Server', 'db')).toBeUndefined();
  expect(find('ConfigMap', 'settings', 'elsewhere')).toBeDefined();
});

test('a namespace that was marked before the controller started is removed too', async () => {
  const { run, addNamespace, mark, namespace } = start();
  addNamespace();
  mark();
  run();
  await settled();
  expect(namespace()).toBeUndefined();
});

test('a namespace that is not being deleted keeps its content', async () => {
  const { run, add, addNamespace, find } = start();
  run();
  addNamespace();
  add('ConfigMap', 'settings');
  await settled();
  expect(find('ConfigMap', 'settings')).toBeDefined();
});

test('the namespace stays and reports the reason while an object in it has a finalizer', async () => {
  const { run, add, addNamespace, change, mark, namespace } = start();
  run();
  addNamespace();
  add('Server', 'db', { finalizers: ['example.com/hold'] });
  mark();
  await settled();

  expect(toJson(namespace() ?? ofJson({}))).toMatchObject({ status: { phase: 'Terminating' } });
  expect(conditionOf(namespace(), 'NamespaceContentRemaining')).toEqual({
    type: 'NamespaceContentRemaining',
    status: 'True',
    reason: 'SomeResourcesRemain',
    message: 'Some resources are remaining: servers.infra.example.com has 1 resource instances',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  });
  expect(conditionOf(namespace(), 'NamespaceFinalizersRemaining')).toMatchObject({
    status: 'True',
    reason: 'SomeFinalizersRemain',
    message:
      'Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances',
  });
  expect(conditionOf(namespace(), 'NamespaceDeletionContentFailure')).toMatchObject({ status: 'False' });

  change('Server', 'db', { finalizers: undefined });
  await settled();
  expect(namespace()).toBeUndefined();
});

test('a namespace with additional finalizers is emptied and then kept', async () => {
  const { run, add, addNamespace, find, mark, namespace } = start();
  run();
  addNamespace();
  add('ConfigMap', 'settings');
  mark({ finalizers: ['example.com/hold'] });
  await settled();
  expect(find('ConfigMap', 'settings')).toBeUndefined();
  expect(toJson(namespace() ?? ofJson({}))).toMatchObject({ spec: { finalizers: [] } });
});

test('a rejected deletion is reported in the status and retried', async () => {
  let refusals = 2;
  const world = start({
    deleteAllIn: (place, namespace) => {
      refusals -= 1;
      if (refusals >= 0) throw forbidden(place, 'db', 'a webhook says no');
      world.deleteObject(place, { namespace, name: 'db' });
    },
  });
  world.run();
  world.addNamespace();
  world.add('Server', 'db');
  const told: unknown[] = [];
  world.storage.watchAll((_place, { object }) => {
    if (object.kind === 'Namespace') told.push(conditionOf(object, 'NamespaceDeletionContentFailure'));
  });
  world.mark();
  await expect.poll(world.namespace).toBeUndefined();
  expect(told).toContainEqual(
    expect.objectContaining({
      status: 'True',
      reason: 'ContentDeletionFailed',
      message:
        'Failed to delete all resource types, 1 remaining: servers.infra.example.com "db" is forbidden: a webhook says no',
    }),
  );
});

test('after stop namespaces are left alone', async () => {
  const { run, addNamespace, mark, namespace } = start();
  const stop = run();
  addNamespace();
  mark();
  stop();
  await settled();
  expect(namespace()).toBeDefined();
});
