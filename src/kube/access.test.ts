import { expect, test } from 'vitest';

import { mayUserVisit, reviewToken } from './access.ts';
import type { KubeClient } from './client.ts';

/** An API server that answers every review with this status. */
function answering(status: object | undefined) {
  const asked: unknown[] = [];
  const create = ((_resource: unknown, object: object) => {
    asked.push(object);
    return Promise.resolve({ ...object, ...(status === undefined ? {} : { status }) });
  }) as KubeClient['create']; // returns the type of its argument, as `create` does
  return { client: { create }, asked };
}

const ALICE = { username: 'alice', uid: 'u1', groups: ['g'], extra: { a: ['b'] } };

test('a token is whose the API server says it is', async () => {
  const { client, asked } = answering({ authenticated: true, user: ALICE });
  expect(await reviewToken(client, 't', undefined)).toEqual(ALICE);
  expect(asked).toEqual([{ metadata: {}, spec: { token: 't' } }]);
});

test('what the API server leaves out is empty', async () => {
  const { client } = answering({ authenticated: true, user: { username: 'alice' } });
  expect(await reviewToken(client, 't', undefined)).toEqual({
    ...{ username: 'alice', uid: '', groups: [], extra: {} },
  });
});

test.each([
  ['it is nobody’s', { error: 'invalid bearer token' }],
  ['it says so, and names a user all the same', { authenticated: false, user: ALICE }],
  ['it names nobody', { authenticated: true, user: {} }],
])('a token is refused where %s', async (_why, status) => {
  expect(await reviewToken(answering(status).client, 't', undefined)).toBeUndefined();
});

test('a token for an audience is taken only where the API server has looked at the audience', async () => {
  const { client, asked } = answering({ authenticated: true, user: ALICE, audiences: ['page'] });
  expect(await reviewToken(client, 't', 'page')).toEqual(ALICE);
  expect(asked).toEqual([{ metadata: {}, spec: { token: 't', audiences: ['page'] } }]);
  for (const audiences of [undefined, [], ['other']])
    expect(
      await reviewToken(answering({ authenticated: true, user: ALICE, audiences }).client, 't', 'page'),
    ).toBeUndefined();
});

test('an answer without a status decides nothing', async () => {
  await expect(reviewToken(answering(undefined).client, 't', undefined)).rejects.toThrow('without a status');
});

test('who may visit a path is what the API server says; where it could not decide, that is no answer', async () => {
  const visit = (status: object | undefined) =>
    mayUserVisit(answering(status).client, ALICE, { path: '/status', verb: 'get' });
  expect(await visit({ allowed: true, evaluationError: 'a role is missing' })).toBe(true);
  expect(await visit({ allowed: false })).toBe(false);
  expect(await visit({ allowed: false, denied: true, evaluationError: 'no matter' })).toBe(false);
  await expect(visit({ allowed: false, evaluationError: 'webhook down' })).rejects.toThrow('webhook down');
  await expect(visit(undefined)).rejects.toThrow('without a status');
});
