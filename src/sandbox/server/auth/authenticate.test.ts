import { expect, test } from 'vitest';

import { unauthorized } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import { createAuthenticator, createUserLookup } from './authenticate.ts';

const alice: UserInfo = { username: 'alice', groups: ['developers'] };
const authenticate = createAuthenticator(
  createUserLookup({
    tokens: () => new Map([['alices', alice]]),
    issued: (token) => (token === 'issued' ? { username: 'robot', groups: [] } : undefined),
  }),
);

test('a token identifies its user, and every user with a token is authenticated', () => {
  expect(authenticate({ authorization: ['Bearer alices'] })).toEqual({
    username: 'alice',
    groups: ['developers', 'system:authenticated'],
  });
});

test('tokens that are issued later are valid as well', () => {
  expect(authenticate({ authorization: ['bearer issued'] }).username).toBe('robot');
});

test.each([
  ['no header', {}],
  ['another scheme', { authorization: ['Basic YWxpY2U6'] }],
  ['a scheme without a token', { authorization: ['Bearer '] }],
])('with %s the user is anonymous', (_what, headers) => {
  expect(authenticate(headers)).toEqual({ username: 'system:anonymous', groups: ['system:unauthenticated'] });
});

test('an unknown token is a 401', () => {
  expect(() => authenticate({ authorization: ['Bearer stolen'] })).toThrow(unauthorized());
});
