import { expect, test } from 'vitest';

import { createListeners } from './listeners.ts';

test('every listener receives each change', () => {
  const listeners = createListeners<[name: string, count: number]>();
  const heard: unknown[] = [];
  listeners.add((...args) => heard.push(['a', ...args]));
  listeners.add((...args) => heard.push(['b', ...args]));
  listeners.tell('servers', 1);
  expect(heard).toEqual([
    ['a', 'servers', 1],
    ['b', 'servers', 1],
  ]);
});

test('an aborted listener receives nothing more, and the others do', () => {
  const listeners = createListeners<[name: string]>();
  const heard: string[] = [];
  const stop = new AbortController();
  listeners.add((name) => heard.push(`a ${name}`), stop.signal);
  listeners.add((name) => heard.push(`b ${name}`));
  stop.abort();
  listeners.tell('servers');
  expect(heard).toEqual(['b servers']);
});

test('a listener with an aborted signal never receives anything', () => {
  const listeners = createListeners<[]>();
  let told = 0;
  listeners.add(() => told++, AbortSignal.abort());
  listeners.tell();
  expect(told).toBe(0);
});

test('a listener may unsubscribe during a notification', () => {
  const listeners = createListeners<[]>();
  const stop = new AbortController();
  let told = 0;
  listeners.add(() => {
    told++;
    stop.abort();
  }, stop.signal);
  listeners.add(() => told++);
  listeners.tell();
  listeners.tell();
  expect(told).toBe(3);
});
