import { expect, test } from 'vitest';

import { DEV_URL_ANNOTATION, devSessionOf, withDevSession, withoutDevSession } from './dev-session.ts';

const now = new Date('2026-11-22T06:00:00Z');
const inSeconds = (seconds: number) => new Date(now.getTime() + seconds * 1_000);
const session = {
  id: 'a1',
  holder: 'eva@laptop',
  url: 'https://laptop:8443',
  expiresAt: inSeconds(60),
  created: false,
};
const noted = (annotation: string) => ({ metadata: { annotations: { [DEV_URL_ANNOTATION]: annotation } } });

test('a note survives the round trip, and other annotations stay', () => {
  const metadata = withDevSession({ name: 'gatehouse', annotations: { note: 'b' } }, session);
  expect(metadata.annotations).toMatchObject({ note: 'b' });
  expect(devSessionOf({ metadata }, now)).toEqual({ kind: 'valid', session });
  expect(withoutDevSession(metadata)).toEqual({ name: 'gatehouse', annotations: { note: 'b' } });
});

test('removing the note leaves no trace, not even an empty map', () => {
  expect(devSessionOf({ metadata: { name: 'gatehouse' } }, now)).toEqual({ kind: 'none' });
  const metadata = withDevSession({ name: 'gatehouse' }, { ...session, created: true });
  expect(withoutDevSession(metadata)).toEqual({ name: 'gatehouse' });
});

test.each([
  ['has expired', 0, 'over'],
  ['is valid for another second', 1, 'valid'],
  ['claims five minutes', 300, 'valid'],
  ['claims more than a session may', 301, 'over'],
])('a note that %s', (_what, seconds, kind) => {
  const metadata = withDevSession({}, { ...session, expiresAt: inSeconds(seconds) });
  expect(devSessionOf({ metadata }, now).kind).toBe(kind);
});

test.each([
  '',
  'true',
  'null',
  '[]',
  '{',
  '{"__proto__":{"session":"a"}}',
  '{"session":"a","holder":"b","url":"c"}',
])('an invalid note is ignored: %s', (text) => {
  expect(devSessionOf(noted(text), now)).toEqual({ kind: 'over', session: undefined });
});
