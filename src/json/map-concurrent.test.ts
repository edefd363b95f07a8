import { expect, test } from 'vitest';

import { mapConcurrent } from './map-concurrent.ts';

test('results have the order of the items, no matter which call ends first', async () => {
  const gates = [0, 1, 2].map(() => Promise.withResolvers<string>());
  const results = mapConcurrent(
    [0, 1, 2],
    3,
    (index) => gates[index]?.promise ?? Promise.reject(new Error()),
  );
  for (const index of [2, 0, 1]) gates[index]?.resolve(`r${index}`);
  expect(await results).toEqual(['r0', 'r1', 'r2']);
});

test('at most `limit` calls are in flight, and a new call starts as soon as one ends', async () => {
  let inFlight = 0;
  let most = 0;
  const slow = Promise.withResolvers<undefined>();
  const started: number[] = [];
  const run = async (item: number) => {
    started.push(item);
    most = Math.max(most, (inFlight += 1));
    await (item === 0 ? slow.promise : Promise.resolve());
    inFlight -= 1;
    if (item === 6) slow.resolve(undefined);
  };
  await mapConcurrent([0, 1, 2, 3, 4, 5, 6], 2, run);
  expect(most).toBe(2);
  expect(started).toEqual([0, 1, 2, 3, 4, 5, 6]);
});

test('after an error no further call starts', async () => {
  const started: number[] = [];
  const run = async (item: number) => {
    started.push(item);
    await Promise.resolve();
    if (item === 1) throw new Error('refused');
    await new Promise((resolve) => setTimeout(resolve, 1));
  };
  await expect(mapConcurrent([0, 1, 2, 3, 4], 2, run)).rejects.toThrow('refused');
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(started).toEqual([0, 1]);
});

test('a call that throws immediately rejects the result', async () => {
  const run = () => {
    throw new Error('refused');
  };
  await expect(mapConcurrent([0, 1], 2, run)).rejects.toThrow('refused');
});
