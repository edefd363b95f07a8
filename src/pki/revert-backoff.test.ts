import { expect, test } from 'vitest';
import { after, HOUR, MINUTE, SECOND } from './durations.ts';
import { isContended, nextAttempt, settledAt, type RevertHistory } from './revert-backoff.ts';

const start = new Date('2026-03-01T00:00:00Z');

/** Another client reverts the content `everyMs`, for `ms`. Returns when the writes happen, in milliseconds. */
function fought(everyMs: number, ms: number) {
  let history: RevertHistory | undefined;
  let begins = 0;
  const writes: number[] = [];
  for (let at = 0, wiped = true, wipesAt = 0; at < ms; at += 100) {
    if (at >= wipesAt) {
      wiped = true;
      wipesAt += everyMs;
    }
    if (!wiped) continue;
    const attempt = nextAttempt(history, 'content', after(start, at));
    history = attempt.history;
    if (attempt.kind === 'wait') {
      if (attempt.begins) begins++;
      continue;
    }
    writes.push(at);
    wiped = false;
  }
  return { writes, begins, history };
}

test('the first write and ten reverts after it cause no delay', () => {
  const { writes, begins } = fought(SECOND, 11 * SECOND);
  expect(writes).toEqual(Array.from({ length: 11 }, (_, index) => index * SECOND));
  expect(begins).toBe(0);
});

test('after the eleventh revert within five minutes the object counts as contended, which is reported once', () => {
  const { begins, history } = fought(SECOND, HOUR);
  expect(begins).toBe(1);
  expect(isContended(history)).toBe(true);
});

test('the delays of a contended object double, up to five minutes', () => {
  const { writes } = fought(SECOND, 3 * HOUR);
  const waits = writes.slice(11).map((at, index) => at - (writes[index + 10] ?? 0));
  const seconds = waits.map((ms) => Math.round(ms / SECOND));
  expect(seconds.slice(1, 10)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 300]);
  expect(new Set(seconds.slice(9))).toEqual(new Set([300]));
  expect(writes.at(-1)).toBeGreaterThan(3 * HOUR - 6 * MINUTE);
});

test('an object with rare reverts is not contended', () => {
  const { begins, writes } = fought(31 * SECOND, 3 * HOUR);
  expect(begins).toBe(0);
  expect(writes).toHaveLength(Math.ceil((3 * HOUR) / (31 * SECOND)));
});

test('new content is written immediately to a contended object, which stays contended', () => {
  const { history } = fought(SECOND, HOUR);
  const now = after(start, HOUR);
  const attempt = nextAttempt(history, 'new content', now);
  expect(attempt).toMatchObject({ kind: 'write', history: { content: 'new content', writtenAt: now } });
  expect(isContended(attempt.history)).toBe(true);
  expect(nextAttempt(attempt.history, 'new content', after(now, SECOND))).toMatchObject({
    kind: 'wait',
    begins: false,
  });
});

test('an object stops being contended after the content has lasted long enough', () => {
  const { history } = fought(SECOND, HOUR);
  if (history === undefined) throw new Error('there is no history');
  const attempt = nextAttempt(history, 'content', settledAt(history));
  expect(attempt.kind).toBe('write');
  expect(isContended(attempt.history)).toBe(false);
});

test('C1: a clock that jumps back by 400 days causes no wait of 400 days', () => {
  const { history } = fought(SECOND, HOUR);
  expect(nextAttempt(history, 'content', after(start, -400 * 24 * HOUR)).kind).toBe('write');
});
