import { expect, test } from 'vitest';

import { createSessions, MAX_SESSIONS, SESSION_MS } from './sessions.ts';

test('a session maps to its token until it is closed', () => {
  const sessions = createSessions(() => 0);
  const id = sessions.open('secret');
  expect(id).toMatch(/^[\w-]{43}$/);
  expect(sessions.tokenOf(id)).toBe('secret');
  expect(sessions.tokenOf('secret')).toBeUndefined();
  sessions.close(id);
  expect(sessions.tokenOf(id)).toBeUndefined();
});

test('a session ends after an hour, even if it is active', () => {
  let now = 1_000_000;
  const sessions = createSessions(() => now);
  const id = sessions.open('secret');
  now += SESSION_MS - 1;
  expect(sessions.tokenOf(id)).toBe('secret');
  now += 1;
  expect(sessions.tokenOf(id)).toBeUndefined();
});

test('the number of sessions is limited, and the oldest is removed first', () => {
  const sessions = createSessions(() => 0);
  const ids = Array.from({ length: MAX_SESSIONS + 1 }, (_none, index) => sessions.open(`t${index}`));
  expect(ids.map((id) => sessions.tokenOf(id)).filter((token) => token === undefined)).toHaveLength(1);
  expect(sessions.tokenOf(ids[0] ?? '')).toBeUndefined();
});
