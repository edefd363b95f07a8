import { expect, test } from 'vitest';
import {
  defineController,
  type AppliedObject,
  type ControllerContext,
  type ControllerDefinition,
} from './controller.ts';
import { runController, type ControllerVerdict } from './run-controller.ts';

const now = new Date('2026-01-02T03:04:05Z');
const team = (metadata: object = {}) => ({
  ...{ apiVersion: 'example.com/v1', kind: 'Team', metadata: { name: 'blue', uid: 'u1', ...metadata } },
});
const configMap = (name: string, parts: object = {}, metadata: object = {}) =>
  ({
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'teams', ...metadata } },
    ...parts,
  }) satisfies AppliedObject;

const define = (
  reconcile: (context: ControllerContext) => Promise<unknown>,
  parts: Partial<ControllerDefinition> = {},
) =>
  defineController({
    name: 'teams',
    watch: { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] },
    owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps', 'endpoints'] }],
    reconcile: async (_team, context) => {
      await reconcile(context);
    },
    ...parts,
  });
const again = async (
  controller: Parameters<typeof runController>[0],
  { object, cluster }: Pick<ControllerVerdict, 'object' | 'cluster'>,
) => await runController(controller, { object: object ?? {}, cluster, now });
const verbs = ({ writes }: ControllerVerdict) => writes.map(({ verb, target }) => `${verb} ${target}`);
const change = (verdict: ControllerVerdict, kind: string, edit: (object: never) => object) => ({
  ...{ object: verdict.object },
  cluster: {
    ...verdict.cluster,
    [kind]: (verdict.cluster[kind] ?? []).map((one) => edit(structuredClone(one) as never)),
  } as never,
});

test('an integer beyond 2^53 is applied exactly, and once', async () => {
  const controller = define(({ apply }) => apply(configMap('a', { limit: 9_007_199_254_740_993n })));
  const first = await runController(controller, { object: team(), now });
  expect(first.error).toBeUndefined();
  expect(first.cluster.configmaps).toMatchObject([{ limit: 9_007_199_254_740_993n }]);
  expect(verbs(await again(controller, first))).toEqual([]);
});

test('an object that is applied twice with different content in one pass would never be settled', async () => {
  const twice = define(async ({ apply }) => {
    await apply(configMap('a', { data: { step: '1' } }));
    await apply(configMap('a', { data: { step: '2' } }));
  });
  const { error } = await runController(twice, { object: team(), now });
  expect(error?.message).toBe(
    'ConfigMap teams/a is applied twice in this pass with different content: apply it once',
  );
  const atOnce = define(({ apply }) =>
    Promise.all(['1', '2'].map((step) => apply(configMap('a', { data: { step } })))),
  );
  expect((await runController(atOnce, { object: team(), now })).error?.message).toContain('is applied twice');
});

test('an object that a pass applies and removes would come and go for ever', async () => {
  const controller = define(async ({ apply, remove }) => {
    await apply(configMap('a'));
    await remove(configMap('a'));
  });
  const { error } = await runController(controller, { object: team(), now });
  expect(error?.message).toBe(
    'ConfigMap teams/a was applied in this pass: a pass must not apply and remove the same object',
  );
});

test('an object can be removed and applied again, to change what is immutable', async () => {
  const controller = define(async ({ apply, remove }) => {
    await remove(configMap('a'));
    await apply(configMap('a'));
  });
  expect((await runController(controller, { object: team(), now })).error).toBeUndefined();
});

test('labels that a user removes come back: the owner reference shows whose the object is', async () => {
  const controller = define(({ apply }) => apply(configMap('a')));
  const first = await runController(controller, { object: team(), now });
  const stripped = change(first, 'configmaps', ({ metadata }: { metadata: object }) => ({
    ...configMap('a'),
    metadata: { ...metadata, labels: {} },
  }));
  const second = await again(controller, stripped);
  expect(second.error).toBeUndefined();
  expect(second.cluster.configmaps).toMatchObject([
    { metadata: { labels: { 'gatehouse.dev/controller': 'teams' } } },
  ]);
});

test('adopt takes no object of an owner that only has the same kind and name', async () => {
  const controller = define(({ apply }) => apply(configMap('a'), { adopt: true }));
  const reference = { kind: 'Team', name: 'blue', uid: 'other', controller: true };
  const owned = (apiVersion: string) =>
    configMap('a', {}, { ownerReferences: [{ ...reference, apiVersion }] });
  const elsewhere = await runController(controller, {
    ...{ object: team({ namespace: 'red' }), now },
    cluster: { configmaps: [owned('example.com/v1')] },
  });
  expect(elsewhere.error?.message).toContain('ConfigMap teams/a belongs to Team blue');
  const otherGroup = await runController(controller, {
    ...{ object: team(), now },
    cluster: { configmaps: [owned('football.example.com/v1')] },
  });
  expect(otherGroup.error?.message).toContain('ConfigMap teams/a belongs to Team blue');
});

test('an object with copied labels is not deleted: Endpoints have the labels of their Service', async () => {
  const controller = define(({ apply }) => apply(configMap('a')));
  const first = await runController(controller, { object: team(), now });
  const labels = first.cluster.configmaps?.[0]?.metadata?.labels ?? {};
  const copies = [
    { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'a', namespace: 'teams', labels } },
  ];
  const second = await runController(controller, {
    ...{ object: first.object ?? {}, now },
    cluster: { ...first.cluster, endpoints: copies },
  });
  expect(verbs(second)).toEqual([]);
});

test('an object of another controller with copied labels is not deleted', async () => {
  const controller = define(({ apply }) => apply(configMap('a')));
  const first = await runController(controller, { object: team(), now });
  const { labels, annotations } = first.cluster.configmaps?.[0]?.metadata ?? {};
  const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', uid: 'r', controller: true };
  const copy = configMap('b', {}, { labels, annotations, ownerReferences: [owner] });
  const second = await runController(controller, {
    ...{ object: first.object ?? {}, now },
    cluster: { configmaps: [...(first.cluster.configmaps ?? []), copy] },
  });
  expect(verbs(second)).toEqual([]);
});

test('a tenant who copies the labels to an object with a finalizer does not keep the owner from going', async () => {
  const controller = define(({ apply }) => apply(configMap('a')), { finalize: () => undefined });
  const first = await runController(controller, { object: team({ namespace: 'red' }), now });
  const { labels, annotations } = first.cluster.configmaps?.[0]?.metadata ?? {};
  const trap = configMap('trap', {}, { labels, annotations, finalizers: ['tenant.example.com/never'] });
  const object = {
    ...first.object,
    metadata: { ...first.object?.metadata, deletionTimestamp: '2026-01-02T03:04:05Z' },
  };
  const last = await runController(controller, {
    ...{ object, now },
    cluster: { configmaps: [...(first.cluster.configmaps ?? []), trap] },
  });
  expect(last.object).toBeUndefined();
});

test('an object that was read can be applied again, and is settled', async () => {
  const controller = define(async ({ get, apply }) => {
    const found = await get<ReturnType<typeof configMap>>('configmaps', { name: 'a', namespace: 'teams' });
    await apply({ ...(found ?? configMap('a')), data: { read: 'yes' } } as never);
  });
  const first = await runController(controller, { object: team(), now });
  const second = await again(controller, await again(controller, first)); // the first one reorders the keys
  expect(second.error).toBeUndefined();
  expect(verbs(second)).toEqual([]);
  const changed = change(second, 'configmaps', (one: object) => ({ ...one, data: { read: 'no' } }));
  const third = await again(controller, changed);
  expect(verbs(third)).toEqual(['apply configmaps teams/a']);
  const { metadata } = third.writes[0]?.body as { metadata: { ownerReferences: readonly object[] } };
  expect(metadata).not.toHaveProperty('resourceVersion');
  expect(metadata.ownerReferences).toHaveLength(1);
  expect(verbs(await again(controller, third))).toEqual([]);
});

test('reads find objects in namespaces and cluster-scoped ones, also without a cluster', async () => {
  const seen: unknown[] = [];
  const controller = define(
    async ({ get, list }) => {
      seen.push(await get('configmaps', { name: 'a' }), await get('nodes', { name: 'n' }));
      seen.push(...(await list('configmaps')), ...(await list('nodes')));
    },
    { reads: ['nodes'] },
  );
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } };
  const elsewhere = configMap('a', {}, { namespace: 'other' });
  await runController(controller, {
    ...{ object: team({ namespace: 'teams' }), now },
    cluster: { configmaps: [configMap('a'), elsewhere], nodes: [node] },
  });
  const found = [{ metadata: { namespace: 'teams' } }, { kind: 'Node' }];
  expect(seen).toMatchObject([...found, ...found]);
});

test.each(['apply', 'remove'] as const)('%s needs a name', async (verb) => {
  const object = { ...configMap('a'), metadata: { namespace: 'teams', generateName: 'a-' } };
  const controller = define((context) => context[verb](object as never));
  const { error, writes } = await runController(controller, { object: team(), now });
  expect(error?.message).toContain('ConfigMap: metadata.name is missing');
  expect(writes.map(({ verb: done }) => done)).toEqual(['status']);
});

test('several first applies to other namespaces at once add one finalizer', async () => {
  const controller = define(({ apply }) => Promise.all([apply(configMap('a')), apply(configMap('b'))]));
  const result = await runController(controller, { object: team({ namespace: 'red' }), now });
  expect(result.error).toBeUndefined();
  expect(verbs(result).filter((line) => line.startsWith('finalizers'))).toHaveLength(1);
});
