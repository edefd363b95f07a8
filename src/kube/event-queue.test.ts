import { expect, test } from 'vitest';

import { createEventQueue } from './event-queue.ts';
import type { EventNote } from './events.ts';

const note = (type: EventNote['type'], namespace: string): EventNote => ({
  regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'x' },
  type,
  reason: 'R',
  message: 'm',
});

function drained(queue: ReturnType<typeof createEventQueue<EventNote>>): readonly string[] {
  const names: string[] = [];
  for (let next = queue.next(); next !== undefined; next = queue.next()) names.push(next[0]);
  return names;
}

test('Warnings come before the Normal Events that waited longer', () => {
  const queue = createEventQueue<EventNote>();
  for (let i = 0; i < 3; i++) queue.add(`normal ${i}`, note('Normal', 'prod'));
  queue.add('warning', note('Warning', 'gatehouse-system'));
  expect(drained(queue)).toEqual(['warning', 'normal 0', 'normal 1', 'normal 2']);
});

test('namespaces take turns', () => {
  const queue = createEventQueue<EventNote>();
  for (let i = 0; i < 3; i++) queue.add(`noisy ${i}`, note('Warning', 'noisy'));
  queue.add('quiet', note('Warning', 'quiet'));
  expect(drained(queue)).toEqual(['noisy 0', 'quiet', 'noisy 1', 'noisy 2']);
});

test('a full queue drops Normal Events first, then the newest of the namespace with the most', () => {
  const queue = createEventQueue<EventNote>();
  for (let i = 0; i < 999; i++) queue.add(`noisy ${i}`, note('Warning', 'noisy'));
  queue.add('normal', note('Normal', 'prod'));
  expect(queue.add('first', note('Warning', 'quiet'))).toEqual(note('Normal', 'prod'));
  expect(queue.add('second', note('Warning', 'quiet'))).toEqual(note('Warning', 'noisy'));
  expect(queue.size()).toBe(1_000);
  const names = drained(queue);
  expect(names.slice(0, 4)).toEqual(['noisy 0', 'first', 'noisy 1', 'second']);
  expect(names.at(-1)).toBe('noisy 997');
});

test('a repeated Event waits once and is counted', () => {
  const queue = createEventQueue<EventNote>();
  for (let i = 0; i < 3; i++) queue.add('a', note('Normal', 'prod'));
  expect(queue.next()?.[1].times).toBe(3);
  expect(queue.next()).toBeUndefined();
});
