import { expect, test } from 'vitest';
import { mayUserVisit, reviewToken, readOwnUser } from './access.ts';
import type { KubeClient } from './client.ts';
import { ApiError } from '../../test/support/runtime/fixtures.ts';

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

test('the API server decides who owns a token', async () => {
  const { client, asked } = answering({ authenticated: true, user: ALICE });
  expect(await reviewToken(client, 't', undefined)).toEqual(ALICE);
  expect(asked).toEqual([{ metadata: {}, spec: { token: 't' } }]);
});

test.each([
  ['it is unknown', { error: 'invalid bearer token' }],
  ['it is not authenticated, even with a user name', { authenticated: false, user: ALICE }],
  ['the user lacks a name', { authenticated: true, user: {} }],
])('a token is rejected if %s', async (_why, status) => {
  expect(await reviewToken(answering(status).client, 't', undefined)).toBeUndefined();
});

test('a token for an audience is valid only if the API server has checked that audience', async () => {
  const { client, asked } = answering({ authenticated: true, user: ALICE, audiences: ['page'] });
  expect(await reviewToken(client, 't', 'page')).toEqual(ALICE);
  expect(asked).toEqual([{ metadata: {}, spec: { token: 't', audiences: ['page'] } }]);
  for (const audiences of [undefined, [], ['other']])
    expect(
      await reviewToken(answering({ authenticated: true, user: ALICE, audiences }).client, 't', 'page'),
    ).toBeUndefined();
});

test('a review without a status is an error', async () => {
  await expect(reviewToken(answering(undefined).client, 't', undefined)).rejects.toThrow('without a status');
});

test('the API server decides who may access a path, and an evaluation error is no decision', async () => {
  const visit = (status: object | undefined) =>
    mayUserVisit(answering(status).client, ALICE, { path: '/status', verb: 'get' });
  expect(await visit({ allowed: true, evaluationError: 'a role is missing' })).toBe(true);
  expect(await visit({ allowed: false })).toBe(false);
  expect(await visit({ allowed: false, denied: true, evaluationError: 'no matter' })).toBe(false);
  await expect(visit({ allowed: false, evaluationError: 'webhook down' })).rejects.toThrow('webhook down');
  await expect(visit(undefined)).rejects.toThrow('without a status');
});

const askWho = (client: Pick<KubeClient, 'create'>) => readOwnUser(client, new AbortController().signal);
const failing = (code: number) => ({ create: () => Promise.reject(new ApiError(code, 'Failed')) });

test('the API server knows the name of the user; without the permission to ask, it is unknown', async () => {
  expect(await askWho(answering({ userInfo: { username: 'kubernetes-admin' } }).client)).toBe(
    'kubernetes-admin',
  );
  expect(await askWho(failing(403))).toBeUndefined();
  await expect(askWho(failing(500))).rejects.toMatchObject({ code: 500 });
});
