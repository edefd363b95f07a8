import { expect, test } from 'vitest';

import { createClientCa } from '../../test/support/client-certificates.ts';
import { ApiError } from '../../test/support/runtime/fixtures.ts';
import type { KubeClient } from './client.ts';
import type { Resource } from './object.ts';
import { readOwnUser, userIn } from './own-user.ts';
import type { Credentials } from './rest/credentials.ts';

const ACCOUNT = 'system:serviceaccount:gatehouse-system:gatehouse';
const signal = new AbortController().signal;

const credentials = (headers: Credentials['headers'] = {}, tls: Credentials['tls'] = {}): Credentials => ({
  headers,
  tls,
});
const token = (claims: object) =>
  `Bearer e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.c2ln`;

/** @param version in which the API server serves SelfSubjectReviews; undefined: it does not */
async function ask(version: string | undefined, answer: () => Promise<object>) {
  const asked: Resource[] = [];
  const create = (async (kind: Resource, object: object) => {
    asked.push(kind);
    return { ...object, ...(await answer()) };
  }) as KubeClient['create']; // returns the type of its argument, as `create` does
  const kind = { group: 'authentication.k8s.io', resource: 'selfsubjectreviews', kind: 'SelfSubjectReview' };
  const served = version === undefined ? undefined : { ...kind, version, namespaced: false };
  const user = await readOwnUser(
    { create },
    { resolve: () => Promise.resolve(served) },
    () => Promise.resolve(credentials({ Authorization: token({ sub: ACCOUNT }) })),
    signal,
  );
  return { user, versions: asked.map((one) => one.version) };
}

test.each(['v1', 'v1beta1', 'v1alpha1'])('the API server names the user, also in %s', async (version) => {
  const answer = () => Promise.resolve({ status: { userInfo: { username: 'kubernetes-admin' } } });
  expect(await ask(version, answer)).toEqual({ user: 'kubernetes-admin', versions: [version] });
});

test('without the review, or without permission for it, the credentials name the user', async () => {
  expect(await ask(undefined, () => Promise.reject(new Error('unreachable')))).toEqual({
    user: ACCOUNT,
    versions: [],
  });
  const forbidden = await ask('v1', () => Promise.reject(new ApiError(403, 'forbidden')));
  expect(forbidden.user).toBe(ACCOUNT);
});

test('another failure is no answer', async () => {
  await expect(ask('v1', () => Promise.reject(new ApiError(500, 'away')))).rejects.toThrow('away');
});

test.each([
  ['the token of a ServiceAccount', { Authorization: token({ sub: ACCOUNT }) }, ACCOUNT],
  [
    'a token of another issuer, whose prefix is unknown',
    { Authorization: token({ sub: 'alice' }) },
    undefined,
  ],
  ['a static token', { Authorization: 'Bearer 0123456789abcdef' }, undefined],
  ['a token with a payload that is not JSON', { Authorization: 'Bearer a.b.c' }, undefined],
  ['a password', { Authorization: 'Basic YWRtaW46YWRtaW4=' }, undefined],
  [
    'impersonation',
    { Authorization: token({ sub: ACCOUNT }), 'Impersonate-User': 'j\u00c3\u00b6rg' },
    'jörg',
  ],
  ['nothing', {}, undefined],
])('%s: the user is known from the credentials or not at all', (_what, headers, expected) => {
  expect(userIn(credentials(headers))).toBe(expected);
});

test('a client certificate names the user', () => {
  const { cert } = createClientCa('root').issue({ commonName: 'kubernetes-admin' });
  expect(userIn(credentials({}, { cert }))).toBe('kubernetes-admin');
});
