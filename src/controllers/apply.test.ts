import { describe, expect, test } from 'vitest';
import { createBrake } from './brake.ts';
import { compileController } from './compile-controller.ts';
import { createMemory } from './memory-world.ts';
import { runPass } from './pass.ts';
import { isOrphaning, noteOrphaning } from './pass-state.ts';
import { again, configMap, define, run, team, verbs } from '../../test/support/teams.ts';
import type { ControllerContext } from './controller.ts';
import type { ControllerVerdict } from './run-controller.ts';

const REPLICA_SET = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', uid: 'r', controller: true };

const change = (verdict: ControllerVerdict, kind: string, edit: (object: never) => object) => ({
  object: verdict.object,
  cluster: {
    ...verdict.cluster,
    [kind]: (verdict.cluster[kind] ?? []).map((one) => edit(structuredClone(one) as never)),
  } as never,
});

const memoryOf = (
  { object = {}, cluster }: ControllerVerdict,
  reconcile: (context: ControllerContext) => unknown,
) => {
  const controller = compileController('teams', define(reconcile));
  return { controller, ...createMemory(controller, { object, cluster }) };
};

test('an integer beyond 2^53 is applied exactly, and once', async () => {
  const controller = define(({ apply }) => apply(configMap('a', { limit: 9_007_199_254_740_993n })));
  const first = await run(controller);
  expect(first.error).toBeUndefined();
  expect(first.cluster.configmaps).toMatchObject([{ limit: 9_007_199_254_740_993n }]);
  expect(verbs(await again(controller, first))).toEqual([]);
});

test('an object that is applied twice with different content in one pass would never be settled', async () => {
  const twice = define(async ({ apply }) => {
    await apply(configMap('a', { data: { step: '1' } }));
    await apply(configMap('a', { data: { step: '2' } }));
  });
  const message = 'ConfigMap teams/a is applied twice in this pass with different content: apply it once';
  expect((await run(twice)).error?.message).toBe(message);
  const both = ['1', '2'].map((step) => configMap('a', { data: { step } }));
  const atOnce = define(({ apply }) => Promise.all(both.map((one) => apply(one))));
  expect((await run(atOnce)).error?.message).toBe(message);
});

test('an object that a pass applies and removes would come and go for ever', async () => {
  const controller = define(async ({ apply, remove }) => {
    await apply(configMap('a'));
    await remove(configMap('a'));
  });
  const { error } = await run(controller);
  expect(error?.message).toBe(
    'ConfigMap teams/a was applied in this pass: a pass must not apply and remove the same object',
  );
});

test('an object can be removed and applied again, to change what is immutable', async () => {
  const controller = define(async ({ apply, remove }) => {
    await remove(configMap('a'));
    await apply(configMap('a'));
  });
  expect((await run(controller)).error).toBeUndefined();
});

test('labels that a user removes come back: the owner reference shows whose the object is', async () => {
  const controller = define(({ apply }) => apply(configMap('a')));
  const first = await run(controller);
  const stripped = change(first, 'configmaps', ({ metadata }: { metadata: object }) => ({
    ...configMap('a'),
    metadata: { ...metadata, labels: {} },
  }));
  const second = await again(controller, stripped);
  expect(second.error).toBeUndefined();
  const labels = { 'gatehouse.dev/controller': 'teams' };
  expect(second.cluster.configmaps).toMatchObject([{ metadata: { labels } }]);
});

test('adopt refuses an object whose owner only has the same kind and name', async () => {
  const controller = define(({ apply }) => apply(configMap('a'), { adopt: true }));
  const reference = { kind: 'Team', name: 'blue', uid: 'other', controller: true };
  for (const [object, apiVersion] of [
    [team({ namespace: 'red' }), 'example.com/v1'],
    [team(), 'football.example.com/v1'],
  ] as const) {
    const owned = configMap('a', {}, { ownerReferences: [{ ...reference, apiVersion }] });
    const { error } = await run(controller, object, { configmaps: [owned] });
    expect(error?.message).toContain('ConfigMap teams/a belongs to Team blue');
  }
});

describe('copied labels', () => {
  const controller = define(({ apply }) => apply(configMap('a')), { finalize: () => undefined });
  const applied = async (object = team()) => {
    const first = await run(controller, object);
    const { configmaps = [] } = first.cluster;
    return { object: first.object, configmaps, ...configmaps[0]?.metadata };
  };

  test.each<[string, (labels?: object, annotations?: object) => Record<string, readonly object[]>]>([
    [
      'Endpoints have the labels of their Service',
      (labels) => ({ endpoints: [{ ...configMap('a', {}, { labels }), kind: 'Endpoints' }] }),
    ],
    [
      'another controller owns the object',
      (labels, annotations) => ({
        configmaps: [configMap('b', {}, { labels, annotations, ownerReferences: [REPLICA_SET] })],
      }),
    ],
    [
      'a replicator copied it to another name and another namespace',
      (labels, annotations) => ({
        configmaps: [
          configMap('b', {}, { labels, annotations }),
          configMap('a', {}, { labels, annotations, namespace: 'other' }),
        ],
      }),
    ],
  ])('do not delete an object: %s', async (_what, copied) => {
    const { object, configmaps, labels, annotations } = await applied();
    const copies = copied(labels, annotations);
    const cluster = { ...copies, configmaps: [...configmaps, ...(copies.configmaps ?? [])] };
    expect(verbs(await run(controller, object, cluster))).toEqual([]);
  });

  test('on an object with a finalizer of a tenant do not keep the owner from going', async () => {
    const { object, configmaps, labels, annotations } = await applied(team({ namespace: 'red' }));
    const trap = configMap('trap', {}, { labels, annotations, finalizers: ['tenant.example.com/never'] });
    const metadata = { ...object?.metadata, deletionTimestamp: '2026-01-02T03:04:05Z' };
    const last = await run(controller, { ...object, metadata }, { configmaps: [...configmaps, trap] });
    expect(last.object).toBeUndefined();
  });
});

describe('an object of an earlier life', () => {
  const APPLIED = 'gatehouse.dev/applied';
  const applies = define(({ apply }) => apply(configMap('a')));
  const prunes = define(() => undefined);
  const removes = define(({ remove }) => remove(configMap('a')));
  interface Meta {
    readonly annotations: Readonly<Record<string, string>>;
  }
  const lives: readonly [string, (metadata: Meta) => object, object?][] = [
    ['was restored', (metadata) => ({ ...metadata, uid: 'restored' })],
    ['lacks its owner reference', (metadata) => ({ ...metadata, ownerReferences: [] })],
    ['has a restored owner', (metadata) => metadata, { uid: 'u2' }],
    [
      'has the marks of an earlier version',
      (metadata) => ({ ...metadata, annotations: { [APPLIED]: 'content.place' } }),
    ],
    ['lost its proof', (metadata) => ({ ...metadata, annotations: { [APPLIED]: 'content' } })],
  ];

  test.each(lives)(
    'that %s is not deleted, but reported once, and applied again',
    async (_what, edit, owner) => {
      const first = await run(applies);
      const { cluster } = change(first, 'configmaps', (one: { metadata: Meta }) => ({
        ...one,
        metadata: edit(one.metadata),
      }));
      const later = team(owner);
      for (const controller of [prunes, removes]) {
        const left = await run(controller, later, cluster);
        expect(verbs(left)).toEqual(['status teams.example.com blue']);
        const message = expect.stringContaining('ConfigMap teams/a is a copy, was restored, or') as string;
        expect(left.events).toEqual([{ type: 'Warning', reason: 'NotDeleted', message }]);
      }
      const taken = await run(applies, later, cluster);
      expect(verbs(taken)).toContain('apply configmaps teams/a');
      expect(verbs(await again(prunes, taken))).toContain('delete configmaps teams/a');
      expect(verbs(await again(removes, taken))).toContain('delete configmaps teams/a');
    },
  );
});

test('remove says that an object of an earlier life still exists, but it does not keep the owner from going', async () => {
  const answers: boolean[] = [];
  const removes = async ({ remove }: ControllerContext) => {
    answers.push(await remove(configMap('a')));
  };
  const finalize = (_object: object, context: ControllerContext) => removes(context);
  const first = await run(define(({ apply }) => apply(configMap('a')), { finalize }));
  const { object, cluster } = change(first, 'configmaps', ({ metadata }: { metadata: object }) => ({
    ...configMap('a'),
    metadata: { ...metadata, uid: 'restored' },
  }));
  await run(define(removes, { finalize }), object, cluster);
  const metadata = { ...object?.metadata, deletionTimestamp: '2026-01-02T03:04:05Z' };
  const last = await run(
    define(() => undefined, { finalize }),
    { ...object, metadata },
    cluster,
  );
  expect([answers, last.object]).toEqual([[false, true], undefined]);
});

test.each(['pruned', 'removed'])('an object is not %s for an old version of its owner', async (how) => {
  const first = await run(define(({ apply }) => apply(configMap('a'))));
  const { controller, world, ...memory } = memoryOf(first, ({ remove }) =>
    how === 'removed' ? remove(configMap('a')) : undefined,
  );
  const old = memory.object();
  memory.replace({ ...old, spec: { changed: true } } as never);
  const { signal } = new AbortController();
  const pass = {
    controller,
    world,
    settled: new Map(),
    brake: createBrake(),
    blocked: new Set<string>(),
    deadline: signal,
    signal,
  };
  const result = await runPass(pass, old);
  expect(result).toMatchObject({ kind: 'failed', error: { name: 'OutdatedError' } });
  expect(memory.events).toEqual([]);
  expect(memory.writes).toEqual([]);
  expect((await runPass(pass, memory.object())).kind).toBe('done');
  expect(memory.cluster().configmaps).toEqual([]);
});

test('what a user orphans stays after the garbage collector has removed its finalizer', () => {
  const settled = new Map<string, string>();
  const orphaned = team({ finalizers: ['orphan'] });
  noteOrphaning(settled, orphaned);
  expect(isOrphaning(settled, team())).toBe(true);
  expect(isOrphaning(settled, team({ uid: 'u2' }))).toBe(false);
  noteOrphaning(settled, team(), true);
  expect(settled.size).toBe(0);
});

test('remove keeps an object of another owner, says so once, and does not block finalize', async () => {
  const labels = { 'gatehouse.dev/controller': 'teams', 'gatehouse.dev/owner': 'other' };
  const annotations = { 'gatehouse.dev/applied': 'a.b' };
  const copy = configMap('a', {}, { labels, annotations });
  const removes = async ({ remove }: ControllerContext) => {
    await remove(configMap('a'));
    await remove(configMap('a'));
  };
  const controller = define(removes, { finalize: (_object, context) => removes(context) });
  const first = await run(controller, team(), { configmaps: [copy] });
  const message = expect.stringContaining('belongs to another object of the controller teams') as string;
  expect(first.events).toEqual([{ type: 'Warning', reason: 'NotDeleted', message }]);
  const metadata = { ...first.object?.metadata, deletionTimestamp: '2026-01-02T03:04:05Z' };
  const last = await again(controller, first, { metadata });
  expect([last.object, verbs(last)]).toEqual([undefined, ['finalizers teams.example.com blue']]);
});

test('a forged object that is being deleted for ever does not keep the owner from going', async () => {
  const applies = define(({ apply }) => apply(configMap('a')));
  const first = await run(applies);
  const { cluster } = change(first, 'configmaps', ({ metadata }: { metadata: object }) => ({
    ...configMap('a'),
    metadata: {
      ...metadata,
      uid: 'forged',
      deletionTimestamp: '2026-01-02T03:04:05Z',
      finalizers: ['t.io/t'],
    },
  }));
  const finalize = async (_object: object, { remove }: ControllerContext) => {
    await remove(configMap('a'));
  };
  const finalizers = ['gatehouse.dev/controller-teams'];
  const metadata = { ...first.object?.metadata, finalizers, deletionTimestamp: '2026-01-02T03:04:05Z' };
  const last = await run(
    define(() => undefined, { finalize }),
    { ...first.object, metadata },
    cluster,
  );
  expect(last.object).toBeUndefined();
});

test('an object that was read can be applied again, and is settled', async () => {
  const controller = define(async ({ get, apply }) => {
    const found = await get<ReturnType<typeof configMap>>('configmaps', { name: 'a', namespace: 'teams' });
    await apply({ ...(found ?? configMap('a')), data: { read: 'yes' } } as never);
  });
  const first = await run(controller);
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

test.each([
  ['Gateway', 'gateways'],
  ['NetworkPolicy', 'networkpolicies'],
  ['Ingress', 'ingresses'],
])('a %s is among the %s in owns', async (kind, resource) => {
  const owns = [{ apiGroups: [''], apiVersions: ['v1'], resources: [resource] }] as const;
  const controller = define(({ apply }) => apply({ ...configMap('a'), kind }), { owns });
  expect(verbs(await run(controller))[0]).toBe(`apply ${resource} teams/a`);
});

test('reads find namespaced and cluster-scoped objects, even without a cluster', async () => {
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
  const configmaps = [configMap('a'), elsewhere];
  await run(controller, team({ namespace: 'teams' }), { configmaps, nodes: [node] });
  const found = [{ metadata: { namespace: 'teams' } }, { kind: 'Node' }];
  expect(seen).toMatchObject([...found, ...found]);
});

test.each(['apply', 'remove'] as const)('%s needs a name', async (verb) => {
  const object = { ...configMap('a'), metadata: { namespace: 'teams', generateName: 'a-' } };
  const controller = define((context) => context[verb](object as never));
  const { error, writes } = await run(controller);
  expect(error?.message).toContain('ConfigMap: metadata.name is missing');
  expect(writes.map(({ verb: done }) => done)).toEqual(['status']);
});

test('concurrent first applies to other namespaces add one finalizer', async () => {
  const controller = define(({ apply }) => Promise.all([apply(configMap('a')), apply(configMap('b'))]));
  const result = await run(controller, team({ namespace: 'red' }));
  expect(result.error).toBeUndefined();
  expect(verbs(result).filter((line) => line.startsWith('finalizers'))).toHaveLength(1);
});
