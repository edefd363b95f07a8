import { setImmediate } from 'node:timers/promises';

import { expect, onTestFinished, test } from 'vitest';

import { createWorkQueue } from './work-queue.ts';

function start(work: (key: string) => void | Promise<void>) {
  const errors: unknown[] = [];
  const queue = createWorkQueue(work, (error) => errors.push(error));
  onTestFinished(queue.stop);
  return { ...queue, errors };
}

test('a key that is added several times is processed once, later', async () => {
  const done: string[] = [];
  const { add } = start((key) => void done.push(key));
  add('a');
  add('a');
  add('b');
  expect(done).toEqual([]);
  await setImmediate();
  expect(done).toEqual(['a', 'b']);
});

test('a key that is added during its own processing is processed again afterwards', async () => {
  const releases: (() => void)[] = [];
  const { add } = start(() => new Promise<void>((resolve) => releases.push(resolve)));
  add('a');
  await setImmediate();
  add('a');
  await setImmediate();
  expect(releases).toHaveLength(1);
  releases[0]?.();
  await setImmediate();
  await setImmediate();
  expect(releases).toHaveLength(2);
  releases[1]?.();
});

test('at most twenty keys are processed at a time, and all in the end', async () => {
  const releases: (() => void)[] = [];
  const { add } = start(() => new Promise<void>((resolve) => releases.push(resolve)));
  for (let index = 0; index < 25; index += 1) add(String(index));
  await setImmediate();
  await setImmediate();
  expect(releases).toHaveLength(20);
  for (const release of releases) release();
  await expect.poll(() => releases).toHaveLength(25);
  for (const release of releases) release();
});

test('a key whose processing fails is retried until it succeeds', async () => {
  let failures = 2;
  let successes = 0;
  const { add, errors } = start(() => {
    failures -= 1;
    if (failures >= 0) throw new Error('not yet');
    successes += 1;
  });
  add('a');
  await expect.poll(() => successes).toBe(1);
  expect(errors).toHaveLength(2);
});

test('after stop no processing starts', async () => {
  const done: string[] = [];
  const { add, stop } = start((key) => void done.push(key));
  add('a');
  stop();
  add('b');
  await setImmediate();
  await setImmediate();
  expect(done).toEqual([]);
});
