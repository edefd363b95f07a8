import { expect, test } from 'vitest';

import { ApiError } from '../../test/support/runtime/fixtures.ts';
import { readOwnUser } from './own-user.ts';

const ask = (answer: () => Promise<object>) =>
  readOwnUser(
    // Returns the type of its argument, as `create` does.
    { create: async (_kind, object) => ({ ...object, ...(await answer()) }) },
    new AbortController().signal,
  );

test('the API server names the user', async () => {
  const answer = () => Promise.resolve({ status: { userInfo: { username: 'kubernetes-admin' } } });
  expect(await ask(answer)).toBe('kubernetes-admin');
});

test('without the permission to ask, the user is unknown', async () => {
  expect(await ask(() => Promise.reject(new ApiError(403, 'forbidden')))).toBeUndefined();
});

test('another failure is no answer', async () => {
  await expect(ask(() => Promise.reject(new ApiError(500, 'away')))).rejects.toThrow('away');
});
