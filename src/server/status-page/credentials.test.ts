import { expect, test } from 'vitest';

import {
  audienceOf,
  bearerToken,
  isOfSameOrigin,
  sessionCookie,
  sessionId,
  createSessions,
  MAX_SESSIONS,
  SESSION_MS,
} from './credentials.ts';

test.each([
  [{ authorization: 'Bearer abc' }, 'abc'],
  [{ authorization: 'bearer  abc ' }, 'abc'],
  [{ authorization: 'Basic abc' }, undefined],
  [{ authorization: 'Bearer' }, undefined],
  [{ authorization: 'Bearer a b' }, undefined],
  [{}, undefined],
])('the token in %j is %s', (headers, token) => {
  expect(bearerToken(headers)).toBe(token);
});

test('a session is found among other cookies', () => {
  expect(sessionId({ cookie: 'a=b; gatehouse-status=xyz; c=d' })).toBe('xyz');
  expect(sessionId({ cookie: 'my-gatehouse-status=xyz' })).toBeUndefined();
  expect(sessionId({})).toBeUndefined();
});

test('scripts and other sites cannot use the cookie', () => {
  expect(sessionCookie('xyz', 60)).toBe(
    'gatehouse-status=xyz; Path=/status; Max-Age=60; HttpOnly; Secure; SameSite=Strict',
  );
});

test.each([
  [{ 'sec-fetch-site': 'same-origin' }, true],
  [{ 'sec-fetch-site': 'same-site', host: 'localhost:1', origin: 'http://localhost:1' }, false],
  [{ 'sec-fetch-site': 'cross-site' }, false],
  [{ 'sec-fetch-site': 'none' }, false],
  [{ host: 'localhost:1', origin: 'http://localhost:1' }, true],
  [{ host: 'localhost:1', origin: 'http://localhost:2' }, false],
  [{ host: 'localhost:1', origin: 'null' }, false],
  [{ host: 'localhost:1' }, true],
])('a form with the headers %j is of this page: %s', (headers, own) => {
  expect(isOfSameOrigin(headers)).toBe(own);
});

const jwt = (claims: unknown) => `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;

test.each([
  [jwt({ aud: ['gatehouse-status'] }), 'gatehouse-status'],
  [jwt({ aud: 'gatehouse-status' }), 'gatehouse-status'],
  [jwt({ aud: ['https://kubernetes.default.svc'] }), undefined],
  [jwt({}), undefined],
  [jwt(null), undefined],
  ['opaque', undefined],
  ['..', undefined],
])('the audience of %s is %s', (token, audience) => {
  expect(audienceOf(token)).toBe(audience);
});

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
