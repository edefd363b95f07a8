import { expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createReadAccess } from './read-access.ts';

const servers = { group: 'infra.example.com', resource: 'servers' };
const secrets = { group: '', resource: 'secrets' };
const forbidden = new ApiError({ method: 'GET', path: '/' }, { code: 403, status: {} });
const signal = new AbortController().signal;

/** An API server that gives these answers in turn, and then repeats the last one. */
function start(...answers: readonly (boolean | Error)[]) {
  return startIn(undefined, ...answers);
}

const discovery: Pick<Discovery, 'resolve'> = {
  resolve: (kind) =>
    Promise.resolve({ ...kind, version: 'v1', kind: 'Any', namespaced: kind.resource !== 'datacenters' }),
};

function startIn(namespaces: readonly string[] | undefined, ...answers: readonly (boolean | Error)[]) {
  const places: unknown[] = [];
  let rules: readonly object[] | undefined = [];
  let asked = 0;
  let now = 1_000_000;
  const create = <T extends KubeObject>(_resource: unknown, object: T): Promise<T> => {
    const { spec } = object as {
      readonly spec?: { readonly resourceAttributes: { readonly namespace?: string } };
    };
    places.push(spec?.resourceAttributes.namespace);
    const answer = answers[Math.min(Math.floor(asked / 3), answers.length - 1)];
    asked += 1;
    return answer instanceof Error
      ? Promise.reject(answer)
      : Promise.resolve({ ...object, status: { allowed: answer } });
  };
  const get = () => (rules === undefined ? Promise.reject(forbidden) : Promise.resolve({ rules } as never));
  const client: Pick<KubeClient, 'create' | 'get'> = { create, get };
  return {
    mayRead: createReadAccess(client, { discovery, namespaces }, () => now),
    asked: () => asked,
    places,
    /** Undefined: Gatehouse may not read the ClusterRole. */
    aggregate: (all: readonly object[] | undefined) => {
      rules = all;
    },
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('a hundred policies for one kind cost three reviews, and the permission is reviewed again later', async () => {
  const { mayRead, asked, pass } = start(true, false);
  const answers = await Promise.all(Array.from({ length: 100 }, () => mayRead(servers, signal)));
  expect(answers.every(Boolean)).toBe(true);
  expect(asked()).toBe(3);
  pass(10_000);
  expect(await mayRead(servers, signal)).toBe(false);
});

test('with namespaces, Gatehouse asks about each of them, and once about a cluster-scoped kind', async () => {
  const { mayRead, places } = startIn(['gatehouse-system', 'shop'], true);
  expect(await mayRead(servers, signal)).toBe(true);
  expect(new Set(places)).toEqual(new Set(['gatehouse-system', 'shop']));
  places.length = 0;
  expect(await mayRead({ ...servers, resource: 'datacenters' }, signal)).toBe(true);
  expect(new Set(places)).toEqual(new Set([undefined]));
});

test.each([
  ['both accounts may', true, true, true],
  ['only the own account may', true, false, false],
  ['only the webhook replicas may', false, true, false],
])('%s read the kind: policies may read it: %s', async (_who, own, replicas, may) => {
  const asked: unknown[] = [];
  const create = <T extends KubeObject>({ resource }: { resource: string }, object: T): Promise<T> => {
    const isOwn = resource === 'selfsubjectaccessreviews';
    if (!isOwn) asked.push((object as { readonly spec?: { readonly user?: string } }).spec?.user);
    return Promise.resolve({ ...object, status: { allowed: isOwn ? own : replicas } });
  };
  const account = { username: 'webhook', uid: '', groups: [], extra: {} };
  const mayRead = createReadAccess(
    { create, get: () => Promise.resolve({ rules: [] } as never) },
    { discovery, namespaces: undefined, webhookReplicas: () => Promise.resolve(account) },
    () => 0,
  );
  expect(await mayRead(servers, signal)).toBe(may);
  expect(new Set(asked)).toEqual(new Set(own ? ['webhook'] : []));
});

test('a denial is not cached: the ClusterRole may exist by now', async () => {
  const { mayRead } = start(false, true);
  expect(await mayRead(servers, signal)).toBe(false);
  expect(await mayRead(servers, signal)).toBe(true);
});

test('a failed review is repeated', async () => {
  const { mayRead } = start(new Error('the API server is away'), true);
  await expect(mayRead(servers, signal)).rejects.toThrow('away');
  expect(await mayRead(servers, signal)).toBe(true);
});

test('an aborted caller stops waiting, and the others still get the result', async () => {
  const { mayRead } = start(true);
  const leaving = new AbortController();
  const [left, stayed] = [mayRead(servers, leaving.signal), mayRead(servers, signal)];
  leaving.abort(new Error('no longer wanted'));
  await expect(left).rejects.toThrow('no longer wanted');
  expect(await stayed).toBe(true);
});

test.each<[string, boolean, readonly object[] | undefined]>([
  [
    'named',
    true,
    [{ apiGroups: [''], resources: ['configmaps', 'secrets'], verbs: ['get', 'list', 'watch'] }],
  ],
  ['named with all verbs', true, [{ apiGroups: ['', 'apps'], resources: ['secrets'], verbs: ['*'] }]],
  ['covered by a wildcard', false, [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]],
  ['in a group by a wildcard', false, [{ apiGroups: ['*'], resources: ['secrets'], verbs: ['*'] }]],
  ['of another group', false, [{ apiGroups: ['example.com'], resources: ['secrets'], verbs: ['*'] }]],
  [
    'named for one name',
    false,
    [{ apiGroups: [''], resources: ['secrets'], resourceNames: ['a'], verbs: ['*'] }],
  ],
  ['named for get', false, [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }]],
  ['in an unreadable role', false, undefined],
])(
  'Secrets that are %s in the aggregated ClusterRole: policies may read them: %s',
  async (_how, may, rules) => {
    const { mayRead, aggregate } = start(true);
    aggregate(rules);
    expect(await mayRead(secrets, signal)).toBe(may);
    expect(await mayRead(servers, signal)).toBe(true);
  },
);
