import { expect, test } from 'vitest';

import type { UniqueClaim } from '../../api/unique-claim.ts';
import { ApiError } from '../../kube/api-error.ts';
import { createClaims, createNamespaceCheck } from './claims.ts';

const claim: UniqueClaim = {
  metadata: { name: 'serial-1', uid: 'u', resourceVersion: '7' },
  spec: {
    policy: 'servers',
    rule: 'serial',
    values: [],
    holder: { group: '', resource: 'servers', name: 'a' },
    claimedAt: '2026-11-21T12:00:00Z',
  },
};
const { signal } = new AbortController();
const failing = (code: number, reason: string) => () =>
  Promise.reject(new ApiError({ method: 'X', path: '/' }, { code, status: { reason } }));

type Client = Parameters<typeof createClaims>[0];
const claimsOf = (change: Partial<Client>) => {
  const unasked = () => Promise.reject(new Error('unexpected call'));
  return createClaims(
    { get: unasked, create: unasked, replace: unasked, delete: unasked, ...change },
    70_000,
  );
};

test('a taken name, an old version and a missing claim are results rather than errors', async () => {
  expect(await claimsOf({ create: failing(409, 'AlreadyExists') }).create(claim, signal)).toBe('taken');
  expect(await claimsOf({ replace: failing(409, 'Conflict') }).replace(claim, signal)).toBe('changed');
  expect(await claimsOf({ replace: failing(404, 'NotFound') }).replace(claim, signal)).toBe('changed');
  expect(await claimsOf({ delete: failing(409, 'Conflict') }).remove(claim, signal)).toBe('changed');
  expect(await claimsOf({ delete: () => Promise.resolve('absent') }).remove(claim, signal)).toBe('changed');
  expect(await claimsOf({ get: () => Promise.resolve(undefined) }).read('serial-1', signal)).toBeUndefined();
});

test('a claim is deleted only in the version that was read', async () => {
  const asked: unknown[] = [];
  const remove: Client['delete'] = (_resource, ref, options) => {
    asked.push([ref, options?.preconditions]);
    return Promise.resolve('deleted');
  };
  expect(await claimsOf({ delete: remove }).remove(claim, signal)).toBe('removed');
  expect(asked).toEqual([[{ name: 'serial-1' }, { uid: 'u', resourceVersion: '7' }]]);
});

test.each([
  ['create', () => claimsOf({ create: failing(403, 'Forbidden') }).create(claim, signal)],
  ['create without the CRD', () => claimsOf({ create: failing(404, 'NotFound') }).create(claim, signal)],
  ['replace', () => claimsOf({ replace: failing(500, '') }).replace(claim, signal)],
  ['delete', () => claimsOf({ delete: failing(500, '') }).remove(claim, signal)],
])('any other failure of %s is an error', async (_what, attempt) => {
  await expect(attempt()).rejects.toThrow(ApiError);
});

test('a namespace is read once a minute; a missing namespace is read each time', async () => {
  const asked: string[] = [];
  const hasNamespace = createNamespaceCheck({
    getMetadata: (_resource, { name }) => {
      asked.push(name);
      return Promise.resolve(name === 'shop' ? { metadata: { name } } : undefined);
    },
  });
  for (const name of ['shop', 'shop', 'gone', 'gone']) await hasNamespace(name, signal);
  expect(asked).toEqual(['shop', 'gone', 'gone']);
  expect(await hasNamespace('shop', signal)).toBe(true);
  expect(await hasNamespace('gone', signal)).toBe(false);
});
