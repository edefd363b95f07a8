import { describe, expect, test } from 'vitest';

import type { HandlerDefinition, HandlerContext } from './handler.ts';
import { Unreadable } from './errors.ts';
import type { HandlerWorld, Query } from './handler-world.ts';
import {
  call,
  compiled,
  denied,
  requestOf,
  testServer,
  type TestServer,
} from '../../../test/support/admission/handler.ts';

interface Datacenter {
  metadata: { name: string };
  spec: { capacity: number };
}

const datacenter = (capacity: number): Datacenter => ({ metadata: { name: 'fra1' }, spec: { capacity } });

/** The content of the store and the behaviour of the API server; undefined: it does not answer. */
interface Cluster {
  readonly stored?: readonly object[] | undefined;
  readonly live?: readonly object[] | undefined;
  readonly namespaced?: boolean;
}

function worldWith({ stored, live, namespaced = false }: Cluster) {
  const asked: string[] = [];
  const queries: Query[] = [];
  const named = (list: readonly object[] | undefined, wanted: string) =>
    list?.find((object) => (object as Datacenter).metadata.name === wanted);
  const answer = () => live ?? Promise.reject(new Error('etcd leader changed'));
  const world: HandlerWorld = {
    isNamespaced: () => Promise.resolve(namespaced),
    find: (_kind, { name }) => named(stored, name),
    select: () => stored,
    read: async (_kind, { namespace, name }) => {
      asked.push([namespace, name].filter(Boolean).join('/'));
      return named(await answer(), name);
    },
    query: async (_kind, query) => {
      queries.push(query);
      return await answer();
    },
  };
  return { world, asked, queries };
}

const READS: NonNullable<HandlerDefinition['reads']> = [
  'datacenters.infra.example.com',
  'secrets',
  'racks.infra.example.com',
  { apiGroup: 'other.example.com', resource: 'racks', metadataOnly: true },
];

/** Runs `ask` in a handler and returns its result. */
async function ask<T>(
  cluster: Cluster,
  act: (context: HandlerContext<TestServer>) => Promise<T>,
  request = requestOf(),
) {
  const { world, asked, queries } = worldWith(cluster);
  let result: T | undefined;
  const handler = compiled({
    reads: READS,
    validate: async (_object, context) => {
      result = await act(context);
    },
  });
  const { failure, decision } = await call(handler, { world, request });
  return { result, failure, decision, asked, queries };
}

describe('get', () => {
  test('is answered from the store', async () => {
    const { result, asked } = await ask({ stored: [datacenter(4)] }, ({ get }) =>
      get<Datacenter>('datacenters.infra.example.com', { name: 'fra1' }),
    );
    expect(result?.spec.capacity).toBe(4);
    expect(asked).toEqual([]);
  });

  test('asks the API server for objects that the store lacks, and always with live', async () => {
    const capacity = async (stored: readonly object[], live: boolean) => {
      const cluster = { stored, live: [datacenter(5)] };
      const options = { name: 'fra1', live };
      return (await ask(cluster, ({ get }) => get<Datacenter>('datacenters', options))).result?.spec.capacity;
    };
    expect(await capacity([], false)).toBe(5);
    expect(await capacity([datacenter(4)], true)).toBe(5);
  });

  test.each(['../servers', 'a/b', '', 'UPPER', 'x'.repeat(300), '%2e%2e'])(
    'never requests the name %j, which no object can have',
    async (name) => {
      const { result, asked, failure } = await ask({}, ({ get }) => get('datacenters', { name }));
      expect({ result, asked, failure }).toEqual({ result: undefined, asked: [], failure: undefined });
    },
  );

  test('uses the namespace of the request for namespaced kinds', async () => {
    const asked = async (namespaced: boolean, options: object) =>
      (await ask({ live: [], namespaced }, ({ get }) => get('secrets', { name: 'db', ...options }))).asked;
    expect(await asked(true, {})).toEqual(['shop/db']);
    expect(await asked(true, { namespace: 'x' })).toEqual(['x/db']);
    expect(await asked(false, { namespace: 'x' })).toEqual(['db']);
  });

  test.each<[string, (context: HandlerContext<TestServer>) => Promise<unknown>, string]>([
    ['a kind that is not in reads', ({ get }) => get('pods', { name: 'a' }), '"pods" not found in reads'],
    [
      'an ambiguous kind',
      ({ get }) => get('racks', { name: 'a' }),
      'write racks.infra.example.com or racks.other',
    ],
    [
      'an invalid namespace',
      ({ get }) => get('secrets', { name: 'a', namespace: '../x' }),
      'not a valid name',
    ],
  ])('of %s is an error of the handler', async (_what, act, message) => {
    const { failure } = await ask({ live: [], namespaced: true }, act);
    expect(failure?.reason).toBe('exception');
    expect((failure?.cause as Error).message).toContain(message);
  });
});

describe('list', () => {
  const servers = [testServer({}, { name: 'a', labels: { tier: 'gold' } }), testServer({}, { name: 'b' })];

  test('is answered from the store, filtered by labels', async () => {
    const { result, queries } = await ask({ stored: servers }, ({ list }) =>
      list<TestServer>('secrets', { labelSelector: { matchLabels: { tier: 'gold' } } }),
    );
    expect(result?.map(({ metadata }) => metadata.name)).toEqual(['a']);
    expect(queries).toEqual([]);
  });

  test('asks the API server while the store is empty, and always with live', async () => {
    const matchExpressions = [
      { key: 'rack', operator: 'In' as const, values: ['b', 'a'] },
      { key: 'tier', operator: 'NotIn' as const, values: ['iron'] },
      { key: 'new', operator: 'Exists' as const },
      { key: 'old', operator: 'DoesNotExist' as const },
    ];
    const first = await ask({ live: [], namespaced: true }, ({ list }) =>
      list('secrets', { labelSelector: { matchLabels: { a: 'b' }, matchExpressions } }),
    );
    expect(first.queries).toEqual([
      { namespace: 'shop', labelSelector: 'a=b,new,!old,rack in (a,b),tier notin (iron)' },
    ]);
    const live = await ask({ stored: servers, live: [] }, ({ list }) => list('secrets', { live: true }));
    expect(live.result).toEqual([]);
    expect(live.queries).toEqual([{ namespace: undefined, labelSelector: undefined }]);
  });

  test.each<[string, Parameters<HandlerContext['list']>[1], string | undefined]>([
    ['the namespace of the request', {}, 'shop'],
    ['another namespace', { namespace: 'x' }, 'x'],
    ['all namespaces', { allNamespaces: true }, undefined],
  ])('reads from %s', async (_what, options, namespace) => {
    const { queries } = await ask({ live: [], namespaced: true }, ({ list }) => list('secrets', options));
    expect(queries).toMatchObject([{ namespace }]);
  });
});

test('objects from the store and live objects are frozen', async () => {
  const stored = Object.freeze([Object.freeze({ ...datacenter(4), spec: Object.freeze({ capacity: 4 }) })]);
  for (const cluster of [{ stored }, { live: [datacenter(4)] }]) {
    const { result } = await ask(cluster, async ({ get, list }) => {
      const all = await list<Datacenter>('datacenters');
      const one = await get<Datacenter>('datacenters', { name: 'fra1' });
      return [
        Reflect.set(all, 0, {}),
        Reflect.set(all[0]?.spec ?? {}, 'capacity', 9),
        Reflect.set(one?.spec ?? {}, 'capacity', 9),
      ];
    });
    expect(result).toEqual([false, false, false]);
  }
});

describe('a failed read', () => {
  const readingIn = (world: HandlerWorld, change: Partial<HandlerDefinition<TestServer>> = {}) =>
    call(
      compiled({
        reads: READS,
        validate: async (_object, { get }) => {
          await get('secrets', { name: 'a' });
        },
        ...change,
      }),
      { world },
    );
  const { world } = worldWith({});

  test('makes the client retry, and only the log has the cause', async () => {
    const { decision, failure } = await readingIn(world);
    expect(decision).toMatchObject({
      kind: 'retry',
      message: 'handler servers could not read what it needs; try again',
    });
    expect(failure).toMatchObject({
      reason: 'read',
      cause: { message: 'could not read secrets "a"', cause: { message: 'etcd leader changed' } },
    });
  });

  test('also makes the client retry if the handler wraps the error', async () => {
    const { decision } = await readingIn(world, {
      validate: async (_object, { list }) => {
        await list('secrets').catch((cause: unknown) => {
          throw new Error('no secrets', { cause });
        });
      },
    });
    expect(decision.kind).toBe('retry');
  });

  test('does not make the client retry if it would fail again because the kind is forbidden', async () => {
    const refused = { ...world, read: () => Promise.reject(new Unreadable('403: forbidden')) };
    const { decision, failure } = await readingIn(refused);
    expect({ kind: decision.kind, reason: failure?.reason }).toEqual({ kind: 'deny', reason: 'unreadable' });
  });

  test('follows the onError that its author set', async () => {
    expect((await readingIn(world, { onError: 'allow' })).decision.kind).toBe('allow');
    expect((await readingIn(world, { onError: 'deny' })).decision.kind).toBe('retry');
  });

  test('is a refusal under failurePolicy: Ignore, because the API server would admit the object after an HTTP error', async () => {
    const outcome = await readingIn(world, { failurePolicy: 'Ignore' });
    expect(denied(outcome)).toMatchObject({ code: 429, retryAfterSeconds: 1 });
  });
});

describe('a refusal based on cached data', () => {
  const full: HandlerDefinition<TestServer>['validate'] = async (object, { get, list, deny, warn }) => {
    const home = await get<Datacenter>('datacenters', { name: object.spec.datacenter });
    const peers = await list('secrets');
    warn(`${peers.length} of ${home?.spec.capacity ?? 0}`);
    if (peers.length >= (home?.spec.capacity ?? 0)) deny('full', { field: 'spec.datacenter' });
  };

  test('is confirmed by live reads', async () => {
    const { world, asked, queries } = worldWith({ stored: [datacenter(1)], live: [datacenter(1)] });
    const { decision } = await call(compiled({ reads: READS, validate: full }), { world });
    expect(decision).toMatchObject({
      kind: 'deny',
      message: 'spec.datacenter: full (handler servers)',
      warnings: ['1 of 1'],
    });
    expect({ asked, queries }).toMatchObject({ asked: ['fra1'], queries: [{}] });
  });

  test('makes the client retry when the API server does not answer', async () => {
    const { world } = worldWith({ stored: [datacenter(1)] });
    expect((await call(compiled({ reads: READS, validate: full }), { world })).decision.kind).toBe('retry');
  });
});
