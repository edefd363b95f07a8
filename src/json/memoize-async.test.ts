import { expect, test, vi } from 'vitest';

import { memoizeAsync } from './memoize-async.ts';

function start(ttlOf?: (result: string) => number) {
  let time = 0;
  const pending: PromiseWithResolvers<string>[] = [];
  const read = vi.fn<(key: string) => Promise<string>>(() => {
    const next = Promise.withResolvers<string>();
    pending.push(next);
    return next.promise;
  });
  const memo = memoizeAsync(read, (key) => key, {
    now: () => time,
    ttlMs: 100,
    ...(ttlOf === undefined ? {} : { ttlOf }),
  });
  return {
    memo,
    read,
    pending,
    pass: (ms: number) => {
      time += ms;
    },
  };
}

test('concurrent callers share one read, each key has its own', async () => {
  const { memo, read, pending } = start();
  const results = [memo.read('a'), memo.read('a'), memo.read('b')];
  pending[0]?.resolve('A');
  pending[1]?.resolve('B');
  expect(await Promise.all(results)).toEqual(['A', 'A', 'B']);
  expect(read.mock.calls).toEqual([['a'], ['b']]);
});

test('a result is cached until its TTL is over, counted from the start of the read', async () => {
  const { memo, read, pending, pass } = start();
  const first = memo.read('a');
  pass(60);
  pending[0]?.resolve('A');
  await first;
  pass(39);
  expect(await memo.read('a')).toBe('A');
  pass(1);
  void memo.read('a');
  expect(read).toHaveBeenCalledTimes(2);
});

test('a failed read rejects for all waiting callers and is not cached', async () => {
  const { memo, read, pending } = start();
  const results = [memo.read('a'), memo.read('a')];
  pending[0]?.reject(new Error('away'));
  for (const result of results) await expect(result).rejects.toThrow('away');
  void memo.read('a');
  expect(read).toHaveBeenCalledTimes(2);
});

test('the result can set the TTL', async () => {
  const { memo, read, pending, pass } = start((result) => (result === 'yes' ? 100 : 0));
  const no = memo.read('a');
  pending[0]?.resolve('no');
  await no;
  const yes = memo.read('a');
  pending[1]?.resolve('yes');
  await yes;
  pass(50);
  expect(await memo.read('a')).toBe('yes');
  expect(read).toHaveBeenCalledTimes(2);
});

test('a late failure of a forgotten read does not drop the result of the next one', async () => {
  const { memo, read, pending } = start();
  const first = memo.read('a');
  memo.forget((name) => name === 'a');
  const second = memo.read('a');
  pending[0]?.reject(new Error('late'));
  await expect(first).rejects.toThrow('late');
  pending[1]?.resolve('A');
  expect([await second, await memo.read('a')]).toEqual(['A', 'A']);
  expect(read).toHaveBeenCalledTimes(2);
});

test('expired results do not accumulate', async () => {
  const { memo, pending, pass } = start();
  for (const [index, key] of ['a', 'b', 'c'].entries()) {
    const result = memo.read(key);
    pending[index]?.resolve(key);
    await result;
    pass(60);
  }
  const names: string[] = [];
  memo.forget((name) => {
    names.push(name);
    return false;
  });
  expect(names).toEqual(['b', 'c']);
});
