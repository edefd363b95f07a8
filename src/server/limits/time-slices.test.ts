import { expect, test } from 'vitest';

import { createTimeSlices } from './time-slices.ts';
import { createTurnQueue } from './turns.ts';

/** An event loop that the test drives, and a clock that advances only with work. */
function loop() {
  let now = 1_000_000;
  const turns: (() => void)[] = [];
  const breathe = createTimeSlices(
    10,
    () => now,
    createTurnQueue((callback) => void turns.push(callback)),
  );
  const done: string[] = [];
  const work = async (name: string, pieces: number, msEach: number): Promise<void> => {
    for (let piece = 1; piece <= pieces; piece += 1) {
      await breathe();
      now += msEach;
      done.push(`${name}${piece}`);
    }
  };
  /** Runs one turn and returns the work done in it. */
  const turn = async (): Promise<readonly string[]> => {
    done.length = 0;
    turns.shift()?.();
    for (let microtask = 0; microtask < 20; microtask += 1) await Promise.resolve();
    return [...done];
  };
  return { work, turn, isIdle: () => turns.length === 0 };
}

test('work pauses for others when its slice ends', async () => {
  const { work, turn, isIdle } = loop();
  const worked = work('a', 6, 4);
  expect(await turn()).toEqual(['a1', 'a2', 'a3']);
  expect(await turn()).toEqual(['a4', 'a5', 'a6']);
  await worked;
  expect(isIdle()).toBe(true);
});

test('concurrent jobs share one slice per turn, each in order', async () => {
  const { work, turn, isIdle } = loop();
  const all = [work('a', 2, 10), work('b', 2, 10), work('c', 2, 10)];
  const turns: (readonly string[])[] = [];
  while (!isIdle()) turns.push(await turn());
  await Promise.all(all);
  expect(turns).toEqual([['a1'], ['b1'], ['c1'], ['a2'], ['b2'], ['c2']]);
});

test('a later job never overtakes a waiting one', async () => {
  const { work, turn } = loop();
  const first = work('a', 3, 10);
  await turn();
  const second = work('b', 1, 1);
  expect(await turn()).toEqual(['a2']);
  expect(await turn()).toEqual(['b1']);
  expect(await turn()).toEqual(['a3']);
  await Promise.all([first, second]);
});
