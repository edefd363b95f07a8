import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../kube/clock.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import { FOLLOW_EVERY_MS, followSecret } from './bundle-sources.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The names of started and stopped watches, in order. */
function follower() {
  const log: string[] = [];
  const start = (name: string) => {
    log.push(`start ${name}`);
    return { name, stop: () => void log.push(`stop ${name}`) };
  };
  const switched = vi.fn();
  return { log, switched, ...followSecret(start, switched, systemClock, NEVER) };
}

test('a storm of edits starts one watch every ten seconds, and the last edit wins', () => {
  const { log, want, source, switched } = follower();
  for (let edit = 0; edit < 300; edit++) {
    want(`secret-${edit}`);
    vi.advanceTimersByTime(100);
  }
  expect(log.filter((line) => line.startsWith('start'))).toHaveLength(4); // after 0, 10, 20 and 30 s
  want('last');
  expect(source()?.name).not.toBe('last');
  vi.advanceTimersByTime(FOLLOW_EVERY_MS);
  expect(source()?.name).toBe('last');
  expect(switched).toHaveBeenCalledTimes(5);
  const open =
    log.filter((line) => line.startsWith('start')).length -
    log.filter((line) => line.startsWith('stop')).length;
  expect(open).toBe(1);
});

test('a name that is edited back keeps its watch', () => {
  const { log, want } = follower();
  want('a');
  want('b');
  want('a');
  vi.advanceTimersByTime(2 * FOLLOW_EVERY_MS);
  expect(log).toEqual(['start a']);
});

test('the Secret of a deleted object is not followed anymore', () => {
  const { log, want, source } = follower();
  want('a');
  want(undefined);
  vi.advanceTimersByTime(FOLLOW_EVERY_MS);
  expect(log).toEqual(['start a', 'stop a']);
  expect(source()).toBeUndefined();
});
