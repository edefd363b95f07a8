import { expect, test } from 'vitest';
import { createRefusedWrites, WriteRefused, CLUSTER_ROLE, refusable } from './write-refused.ts';
import { ApiError, NetworkError } from '../kube/api-error.ts';

const START = Date.parse('2026-11-21T12:00:00Z');

function refusals() {
  const clock = { ms: START };
  const { attempt, over } = createRefusedWrites(() => new Date(clock.ms));
  const isConfirmed = (key: string, error: Error) =>
    attempt(key, () => Promise.reject(error)).then(
      () => true,
      () => false,
    );
  const refuse = (message = 'no') => isConfirmed('a', new WriteRefused(message));
  return { clock, isConfirmed, over, refuse };
}

test('a refusal that lasts two seconds is confirmed, and not before', async () => {
  const { clock, refuse } = refusals();
  expect(await refuse()).toBe(false);
  clock.ms += 1_999;
  expect(await refuse()).toBe(false);
  clock.ms += 1;
  expect(await refuse()).toBe(true);
  clock.ms -= 400 * 86_400_000; // C1: a clock that jumps back
  expect(await refuse()).toBe(false);
  clock.ms += 2_000;
  expect(await refuse()).toBe(true);
});

test('another refusal, another key and a successful write restart the timer', async () => {
  const { clock, isConfirmed, over, refuse } = refusals();
  await refuse();
  clock.ms += 10_000;
  expect(await isConfirmed('b', new WriteRefused('no'))).toBe(false);
  expect(await refuse('not that either')).toBe(false);
  over('a');
  clock.ms += 10_000;
  expect(await refuse('not that either')).toBe(false);
});

const request = { method: 'PATCH', path: '/api/v1/namespaces/shop/configmaps/a' };
const answered = (code: number, reason: string, message: string) =>
  new ApiError(request, { code, status: { reason, message } });

async function outcome(error: unknown): Promise<unknown> {
  return await refusable(CLUSTER_ROLE, () => Promise.reject(error as Error)).catch(
    (thrown: unknown) => thrown,
  );
}

test.each([
  [422, 'Invalid', 'Correct the object, or the admission policy that refuses it.'],
  [
    403,
    'Forbidden',
    'Permit it (deploy/base/controllers-account.yaml), or look for the quota or admission policy',
  ],
])('%d %s contains the remedy and the message of the API server', async (code, reason, advice) => {
  const refused = await outcome(answered(code, reason, 'data: Too long'));
  expect(refused).toBeInstanceOf(WriteRefused);
  expect(String(refused)).toContain(advice);
  expect(String(refused)).toContain(`It says: PATCH ${request.path}: ${code} ${reason}: data: Too long`);
});

test.each([
  ['a conflict', answered(409, 'Conflict', 'the object has been modified')],
  ['a failing server', answered(500, 'InternalError', 'oops')],
  ['a broken connection', new NetworkError(request, 'connection', 'reset')],
])('%s is rethrown unchanged', async (_what, error) => {
  expect(await outcome(error)).toBe(error);
});
