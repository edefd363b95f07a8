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

test('a token opens when it is somebody’s who may look', async () => {
  const { judge } = gateWith();
  expect(await judge('alice')).toEqual({ kind: 'allowed', username: 'alice' });
  expect(await judge('bob')).toEqual({ kind: 'forbidden', username: 'bob' });
  expect(await judge('nobody')).toEqual({ kind: 'unauthenticated' });
});

test.each<[string, Partial<GateDeps<Subject>>]>([
  ['whose token it is', { authenticate: broken }],
  ['what its owner may', { mayLook: broken }],
])('where nobody says %s, nothing is decided, and nothing is kept', async (_what, change) => {
  const { judge, problems } = gateWith(change);
  expect(await judge('alice')).toMatchObject({ kind: 'undecided' });
  expect(JSON.stringify(await judge('alice'))).not.toContain('refused');
  expect(problems).toHaveLength(2);
});

test('an answer is kept for some seconds and no longer', async () => {
  const { judge, asked, pass } = gateWith();
  await judge('alice');
  pass(VERDICT_MS - 1);
  await judge('alice');
  expect(asked).toHaveLength(1);
  pass(1);
  await judge('alice');
  expect(asked).toHaveLength(2);
});

test('what cannot be a token is refused without a question', async () => {
  const { judge, asked } = gateWith();
  for (const text of ['', 'a b', 'a\nb', 'ü', 'x'.repeat(20_000)])
    expect(await judge(text)).toEqual({ kind: 'unauthenticated' });
  expect(asked).toEqual([]);
});

test('the API server is asked once for a token that comes several times at once, and about few at a time', async () => {
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

test('of very many tokens the oldest are forgotten', async () => {
  const { judge, asked } = gateWith();
  for (let index = 0; index < 1_200; index += 1) await judge(`t${index}`);
  await judge('t1199');
  expect(asked).toHaveLength(1_200);
  await judge('t0');
  expect(asked).toHaveLength(1_201);
});
