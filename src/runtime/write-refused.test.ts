import { expect, test } from 'vitest';

import { createRefusedWrites, WriteRefused } from './write-refused.ts';

const START = Date.parse('2026-11-21T12:00:00Z');

function refusals() {
  const clock = { ms: START };
  const { isConfirmed, over } = createRefusedWrites(() => new Date(clock.ms));
  const refuse = (message = 'no') => isConfirmed('a', new WriteRefused(message));
  return { clock, isConfirmed, over, refuse };
}

test('what is refused for two seconds is confirmed, not a moment earlier', () => {
  const { clock, refuse } = refusals();
  expect(refuse()).toBe(false);
  clock.ms += 1_999;
  expect(refuse()).toBe(false);
  clock.ms += 1;
  expect(refuse()).toBe(true);
});

test('another refusal, another key, and a write in between begin anew', () => {
  const { clock, isConfirmed, over, refuse } = refusals();
  refuse();
  clock.ms += 10_000;
  expect(isConfirmed('b', new WriteRefused('no'))).toBe(false);
  expect(refuse('not that either')).toBe(false);
  over('a');
  clock.ms += 10_000;
  expect(refuse('not that either')).toBe(false);
});

test('a failure of another kind is none', () => {
  const { clock, isConfirmed } = refusals();
  isConfirmed('a', new Error('no'));
  clock.ms += 10_000;
  expect(isConfirmed('a', new Error('no'))).toBe(false);
});

test('C1: a clock that jumps back confirms later, and not after 400 days', () => {
  const { clock, refuse } = refusals();
  refuse();
  clock.ms -= 400 * 86_400_000;
  expect(refuse()).toBe(false);
  clock.ms += 2_000;
  expect(refuse()).toBe(true);
});
