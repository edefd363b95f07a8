import { expect, test } from 'vitest';

import { audienceOf, bearerToken, isOfSameOrigin } from './credentials.ts';

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
