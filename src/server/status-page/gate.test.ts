import { expect, test } from 'vitest';

import { createGate, MOST_AT_ONCE, VERDICT_MS, type GateDeps } from './gate.ts';

interface Subject {
  readonly username: string;
}

function gateWith(change: Partial<GateDeps<Subject>> = {}) {
  let now = 0;
  const asked: string[] = [];
  const problems: unknown[] = [];
  const gate = createGate<Subject>({
    authenticate: (token) => {
      asked.push(token);
      return Promise.resolve(token === 'nobody' ? undefined : { username: token });
    },
    mayLook: ({ username }) => Promise.resolve(username === 'alice'),
    onUndecided: (error) => {
      problems.push(error);
    },
    now: () => now,
    ...change,
  });
  return { judge: gate.judge, asked, problems, pass: (ms: number) => (now += ms) };
}

const broken = () => Promise.reject(new Error('connection refused'));

test('the token of a permitted user opens the page', async () => {
  const { judge } = gateWith();
  expect(await judge('alice')).toEqual({ kind: 'allowed', username: 'alice' });
  expect(await judge('bob')).toEqual({ kind: 'forbidden', username: 'bob' });
  expect(await judge('nobody')).toEqual({ kind: 'unauthenticated' });
});

test.each<[string, Partial<GateDeps<Subject>>]>([
  ['who the user is', { authenticate: broken }],
  ['what the user may do', { mayLook: broken }],
])('if the API server cannot say %s, there is no decision, and nothing is cached', async (_what, change) => {
  const { judge, problems } = gateWith(change);
  expect(await judge('alice')).toMatchObject({ kind: 'undecided' });
  expect(JSON.stringify(await judge('alice'))).not.toContain('refused');
  expect(problems).toHaveLength(2);
});

test('a decision is cached for some seconds only', async () => {
  const { judge, asked, pass } = gateWith();
  await judge('alice');
  pass(VERDICT_MS - 1);
  await judge('alice');
  expect(asked).toHaveLength(1);
  pass(1);
  await judge('alice');
  expect(asked).toHaveLength(2);
});

test('an invalid token is rejected without a review', async () => {
  const { judge, asked } = gateWith();
  for (const text of ['', 'a b', 'a\nb', 'ü', 'x'.repeat(20_000)])
    expect(await judge(text)).toEqual({ kind: 'unauthenticated' });
  expect(asked).toEqual([]);
});

test('concurrent requests with one token cause one review, and concurrent reviews are limited', async () => {
  const answer = Promise.withResolvers<Subject>();
  const asked: string[] = [];
  const { judge } = gateWith({
    authenticate: (token) => {
      asked.push(token);
      return answer.promise;
    },
  });
  const first = Array.from({ length: MOST_AT_ONCE }, (_none, index) => [
    judge(`t${index}`),
    judge(`t${index}`),
  ]);
  expect(await judge('one-more')).toMatchObject({ kind: 'undecided' });
  answer.resolve({ username: 'alice' });
  for (const verdict of await Promise.all(first.flat())) expect(verdict.kind).toBe('allowed');
  expect(asked).toHaveLength(MOST_AT_ONCE);
  expect(await judge('one-more')).toMatchObject({ kind: 'allowed' });
});

test('above the limit, the oldest tokens are evicted', async () => {
  const { judge, asked } = gateWith();
  for (let index = 0; index < 1_200; index += 1) await judge(`t${index}`);
  await judge('t1199');
  expect(asked).toHaveLength(1_200);
  await judge('t0');
  expect(asked).toHaveLength(1_201);
});
