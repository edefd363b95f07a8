import { expect, test } from 'vitest';

import { ApiError, NEVER } from '../../../test/support/runtime/fixtures.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createReadAccess } from './read-access.ts';

const servers = { group: 'infra.example.com', resource: 'servers' };
const secrets = { group: '', resource: 'secrets' };

const discovery: Pick<Discovery, 'resolve'> = {
  resolve: (kind) =>
    Promise.resolve({ ...kind, version: 'v1', kind: 'Any', namespaced: kind.resource !== 'datacenters' }),
};

/** An API server that gives these answers in turn, and then repeats the last one. */
function start(answers: readonly boolean[], namespaces?: readonly string[]) {
  const places: unknown[] = [];
  let rules: readonly object[] | undefined = [];
  let asked = 0;
  let now = 1_000_000;
  const create = <T extends KubeObject>(_resource: unknown, object: T): Promise<T> => {
    const { spec } = object as { readonly spec?: { readonly resourceAttributes: { namespace?: string } } };
    places.push(spec?.resourceAttributes.namespace);
    const answer = answers[Math.min(Math.floor(asked / 3), answers.length - 1)];
    asked += 1;
    return Promise.resolve({ ...object, status: { allowed: answer } });
  };
  const get = () =>
    rules === undefined ? Promise.reject(new ApiError(403, 'no')) : Promise.resolve({ rules } as never);
  const client: Pick<KubeClient, 'create' | 'get'> = { create, get };
  return {
    mayRead: createReadAccess(client, { discovery, namespaces }, () => now),
    asked: () => asked,
    places,
    /** Undefined: Gatehouse lacks permission to read the ClusterRole. */
    aggregate: (all: readonly object[] | undefined) => (rules = all),
    pass: (ms: number) => (now += ms),
  };
}

test('a hundred policies for one kind cost three reviews, and the permission is reviewed again later', async () => {
  const { mayRead, asked, pass } = start([true, false]);
  const answers = await Promise.all(Array.from({ length: 100 }, () => mayRead(servers, NEVER)));
  expect(answers.every(Boolean)).toBe(true);
  expect(asked()).toBe(3);
  pass(10_000);
  expect(await mayRead(servers, NEVER)).toBe(false);
});

test('with namespaces, Gatehouse asks about each of them, and once about a cluster-scoped kind', async () => {
  const { mayRead, places } = start([true], ['gatehouse-system', 'shop']);
  expect(await mayRead(servers, NEVER)).toBe(true);
  expect(new Set(places)).toEqual(new Set(['gatehouse-system', 'shop']));
  places.length = 0;
  expect(await mayRead({ ...servers, resource: 'datacenters' }, NEVER)).toBe(true);
  expect(new Set(places)).toEqual(new Set([undefined]));
});

test('a denial is not cached: the ClusterRole may exist by now', async () => {
  const { mayRead } = start([false, true]);
  expect(await mayRead(servers, NEVER)).toBe(false);
  expect(await mayRead(servers, NEVER)).toBe(true);
});

const secret = { apiGroups: [''], resources: ['secrets'], verbs: ['*'] };

test.each<[string, boolean, readonly object[] | undefined]>([
  ['named', true, [{ ...secret, verbs: ['get', 'list', 'watch'] }]],
  ['covered by a wildcard', false, [{ ...secret, resources: ['*'] }]],
  ['named for one name', false, [{ ...secret, resourceNames: ['a'] }]],
  ['named for get', false, [{ ...secret, verbs: ['get'] }]],
  ['in an unreadable role', false, undefined],
])(
  'Secrets that are %s in the aggregated ClusterRole: policies may read them: %s',
  async (_how, may, rules) => {
    const { mayRead, aggregate } = start([true]);
    aggregate(rules);
    expect(await mayRead(secrets, NEVER)).toBe(may);
    expect(await mayRead(servers, NEVER)).toBe(true);
  },
);
