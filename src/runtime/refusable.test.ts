import { expect, test } from 'vitest';

import { WriteRefused } from './write-refused.ts';
import { ApiError, NetworkError } from '../kube/api-error.ts';
import { CLUSTER_ROLE, refusable } from './refusable.ts';

const request = { method: 'PATCH', path: '/api/v1/namespaces/shop/configmaps/a' };
const answered = (code: number, reason: string, message: string) =>
  new ApiError(request, { code, status: { reason, message } });

async function outcome(error: unknown): Promise<unknown> {
  return await refusable(CLUSTER_ROLE, () => Promise.reject(error as Error)).catch(
    (thrown: unknown) => thrown,
  );
}

test.each([
  [400, 'BadRequest', 'Mend the object, or the admission policy that refuses it.'],
  [413, 'RequestEntityTooLarge', 'Mend the object, or the admission policy that refuses it.'],
  [422, 'Invalid', 'Mend the object, or the admission policy that refuses it.'],
  [403, 'Forbidden', 'Permit it (deploy/base/cluster-role.yaml), or look for the quota or admission policy'],
])('%d %s says what to do, and what the API server said', async (code, reason, advice) => {
  const refused = await outcome(answered(code, reason, 'data: Too long'));
  expect(refused).toBeInstanceOf(WriteRefused);
  expect(String(refused)).toContain(advice);
  expect(String(refused)).toContain(`It says: PATCH ${request.path}: ${code} ${reason}: data: Too long`);
});

test.each([
  ['a conflict', answered(409, 'Conflict', 'the object has been modified')],
  ['an object that is gone', answered(404, 'NotFound', 'not found')],
  ['a server that is busy', answered(429, 'TooManyRequests', 'later')],
  ['a server that fails', answered(500, 'InternalError', 'oops')],
  ['a connection that broke', new NetworkError(request, 'connection', 'reset')],
])('%s stays what it is', async (_what, error) => {
  expect(await outcome(error)).toBe(error);
});

test('a write that goes well gives its answer', async () => {
  expect(await refusable(CLUSTER_ROLE, () => Promise.resolve('written'))).toBe('written');
});
