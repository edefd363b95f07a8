import { expect, test } from 'vitest';

import {
  firstPathTokens,
  isAnyToken,
  nextPathTokens,
  parsePathTokens,
  tokensIn,
  webhookPath,
  withPathTokens,
} from './path-tokens.ts';
import type { LiveWebhook } from './dev-entries.ts';

const [A, B, C] = ['a', 'b', 'c'].map((digit) => digit.repeat(32)) as [string, string, string];
const D = 'd'.repeat(32);
const random = () => D;

const entry = (clientConfig: object) => ({ name: 'x', clientConfig }) as unknown as LiveWebhook;
const served = (path: string) => entry({ service: { path } });

test('the tokens in use are read from the paths of Services and URLs', () => {
  const webhooks = [
    served(webhookPath('mutate', A, 'fail-5s-1')),
    served(webhookPath('validate', A, 'own-opening')),
    entry({ url: `https://eva:8443${webhookPath('validate', B, 'e')}` }),
    served(webhookPath('validate', '', 'e')),
    served('/elsewhere'),
  ];
  expect(tokensIn(webhooks)).toEqual([A, B, '']);
});

test('a new Secret keeps the tokens that the API server uses', () => {
  expect(firstPathTokens([], random)).toEqual({ current: D, next: D });
  expect(firstPathTokens([A, B], random)).toEqual({ current: A, next: D, previous: B, certificate: '' });
  expect(firstPathTokens([''], random)).toEqual({ current: '', next: D, certificate: '' });
});

test('a rotation moves each token on, and later drops the previous one', () => {
  const tokens = { current: A, next: B, certificate: 'one' };
  expect(nextPathTokens(tokens, 'one', random)).toBeUndefined();
  expect(nextPathTokens(tokens, undefined, random)).toBeUndefined();
  const rotated = nextPathTokens(tokens, 'two', random);
  expect(rotated).toEqual({ previous: A, current: B, next: D, certificate: 'two' });
  expect(nextPathTokens(rotated ?? tokens, 'two', random)).toEqual({
    current: B,
    next: D,
    certificate: 'two',
  });
});

test('the first certificate keeps the first token, and replaces a token that was kept', () => {
  const first = { current: A, next: B };
  expect(nextPathTokens(first, undefined, random)).toBeUndefined();
  expect(nextPathTokens(first, 'one', random)).toEqual({ ...first, certificate: 'one' });
  const kept = { ...first, certificate: '' };
  expect(nextPathTokens(kept, 'one', random)).toMatchObject({ previous: A, current: B, certificate: 'one' });
});

test('paths of an older version, which lack a token, get one', () => {
  const upgraded = nextPathTokens({ current: '', next: B }, undefined, random);
  expect(upgraded).toEqual({ previous: '', current: B, next: D, certificate: undefined });
});

test('the Secret is read as it was written, and refused with invalid tokens', () => {
  for (const tokens of [
    { previous: '', current: A, next: B, certificate: 'one' },
    { previous: undefined, current: '', next: B, certificate: undefined },
  ])
    expect(parsePathTokens(withPathTokens(tokens))).toEqual(tokens);
  expect(parsePathTokens({})).toBeUndefined();
  for (const wrong of [
    { current: A, next: '' },
    { current: 'x', next: B },
    { current: A, next: B, previous: 'é' },
  ])
    expect(parsePathTokens(withPathTokens(wrong))).toBeUndefined();
});

test('a token is compared as a whole', () => {
  expect(isAnyToken(B, [A, B])).toBe(true);
  for (const wrong of ['', A.slice(1), `${A}a`, C, 'é'.repeat(16)])
    expect(isAnyToken(wrong, [A, B])).toBe(false);
  expect(isAnyToken('', [A, ''])).toBe(true);
});
