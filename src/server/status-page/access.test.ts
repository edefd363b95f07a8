import { expect, test } from 'vitest';

import { createAccessCheck, MAX_CONCURRENT, VERDICT_MS } from './access.ts';

interface Answers {
  readonly authenticate: (token: string) => Promise<{ readonly username: string } | undefined>;
  readonly mayView: (subject: { readonly username: string }) => Promise<boolean>;
}

function accessWith(change: Partial<Answers> = {}) {
  let now = 1_000_000;
  const asked: string[] = [];
  const problems: unknown[] = [];
  const answers: Answers = {
    authenticate: (token) => {
      asked.push(token);
      return Promise.resolve(token === 'unknown' ? undefined : { username: token });
    },
    mayView: ({ username }) => Promise.resolve(username === 'alice'),
    ...change,
  };
  const onUndecided = (error: unknown) => problems.push(error);
  const judge = createAccessCheck(answers.authenticate, answers.mayView, onUndecided, () => now);
  return { judge, asked, problems, pass: (ms: number) => (now += ms) };
}

const broken = () => Promise.reject(new Error('connection refused'));

test.each<[string, Partial<Answers>]>([
  ['who the user is', { authenticate: broken }],
  ['what the user may do', { mayView: broken }],
])('if the API server cannot say %s, there is no decision, and nothing is cached', async (_what, change) => {
  const { judge, problems } = accessWith(change);
  expect(await judge('alice')).toMatchObject({ kind: 'undecided' });
  expect(JSON.stringify(await judge('alice'))).not.toContain('refused');
  expect(problems).toHaveLength(2);
});

test('a decision is cached for some seconds only', async () => {
  const { judge, asked, pass } = accessWith();
  await judge('alice');
  pass(VERDICT_MS - 1);
  await judge('alice');
  expect(asked).toHaveLength(1);
  pass(1);
  await judge('alice');
  expect(asked).toHaveLength(2);
});

test('an invalid token is rejected without a review', async () => {
  const { judge, asked } = accessWith();
  for (const text of ['', 'a b', 'a\nb', 'ü', 'x'.repeat(20_000)])
    expect(await judge(text)).toEqual({ kind: 'unauthenticated' });
  expect(asked).toEqual([]);
});

test('concurrent requests with one token cause one review, and concurrent reviews are limited', async () => {
  const answer = Promise.withResolvers<{ username: string }>();
  const asked: string[] = [];
  const { judge } = accessWith({
    authenticate: (token) => {
      asked.push(token);
      return answer.promise;
    },
  });
  const first = Array.from({ length: MAX_CONCURRENT }, (_none, index) => [
    judge(`t${index}`),
    judge(`t${index}`),
  ]);
  expect(await judge('one-more')).toMatchObject({ kind: 'undecided' });
  answer.resolve({ username: 'alice' });
  for (const verdict of await Promise.all(first.flat())) expect(verdict.kind).toBe('allowed');
  expect(asked).toHaveLength(MAX_CONCURRENT);
  expect(await judge('one-more')).toMatchObject({ kind: 'allowed' });
});

test('above the limit, the oldest tokens are evicted', async () => {
  const { judge, asked } = accessWith();
  for (let index = 0; index < 1_200; index += 1) await judge(`t${index}`);
  await judge('t1199');
  expect(asked).toHaveLength(1_200);
  await judge('t0');
  expect(asked).toHaveLength(1_201);
});
