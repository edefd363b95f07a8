import { expect, test } from 'vitest';

import { createReminders, inLocalTime, REPEAT_MS, requeueIn } from './controller.ts';

const MINUTE = 60_000;
const server = new Date('2026-01-01T00:00:00Z');
const { signal } = new AbortController();

test.each([
  ['ahead', 10 * MINUTE],
  ['behind', -10 * MINUTE],
])('a delay of a second stays a second when the local clock is %s', async (_how, skewMs) => {
  const local = server.getTime() + skewMs;
  const reconcile = inLocalTime(
    () => Promise.resolve(requeueIn(1_000, server)),
    () => server,
    () => local,
  );
  expect(await reconcile('key', signal)).toEqual({ kind: 'requeue', at: new Date(local + 1_000) });
});

test('reminders of states that ended unnoticed are dropped', () => {
  const reminders = createReminders();
  for (let hour = 0; hour < 5; hour++) {
    const at = new Date(server.getTime() + hour * REPEAT_MS);
    for (let object = 0; object < 10; object++)
      expect(reminders.isDue(`${hour} ${object}`, 'text', at)).toBe(true);
  }
  expect(reminders.size()).toBe(10);
});

test('a reminder that is due again counts from then on', () => {
  const reminders = createReminders();
  const at = (minutes: number) => new Date(server.getTime() + minutes * MINUTE);
  const due = [0, 49, 50, 99].filter((minute) => reminders.isDue('key', 'text', at(minute)));
  expect(due).toEqual([0, 50]);
  expect(reminders.isDue('key', 'another text', at(99))).toBe(true);
});
