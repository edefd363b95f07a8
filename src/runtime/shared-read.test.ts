import { expect, test } from 'vitest';

import { createSharedRead } from './shared-read.ts';

const signal = new AbortController().signal;

/** Reads that return their number when the test ends them. */
function controlled() {
  const ends: PromiseWithResolvers<number>[] = [];
  const share = createSharedRead(() => {
    const end = Promise.withResolvers<number>();
    ends.push(end);
    return end.promise;
  });
  return { share, ends, end: (index: number) => ends[index]?.resolve(index) };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

test('a result never comes from a read that started before the call, not even in the tick in which a read ends', async () => {
  let state = 0;
  const share = createSharedRead(async () => {
    const seen = state;
    await Promise.resolve();
    return seen;
  });
  const checks = Array.from({ length: 200 }, async (_unused, index) => {
    for (let turn = 0; turn < index % 7; turn += 1) await Promise.resolve();
    state += 1;
    const mine = state;
    expect(await share(signal)).toBeGreaterThanOrEqual(mine);
  });
  await Promise.all(checks);
});

test('an aborted caller or a failed read does not concern the others', async () => {
  const { share, ends, end } = controlled();
  const giving = new AbortController();
  const given = share(giving.signal);
  const kept = share(signal);
  giving.abort(new Error('the time is over'));
  await expect(given).rejects.toThrow('the time is over');
  ends[0]?.reject(new Error('no answer'));
  await settled();
  end(1);
  expect(await kept).toBe(1);
  expect(ends).toHaveLength(2);
});
