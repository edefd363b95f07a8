import { expect, test } from 'vitest';

import { createServiceAccountTokens } from './service-account-tokens.ts';

function start() {
  let now = 0;
  let drawn = 0;
  const accounts = new Map([['shop/robot', 'uid-1']]);
  const tokens = createServiceAccountTokens(
    () => new Date(now),
    () => `random-${(drawn += 1)}`,
    (namespace, name) => accounts.get(`${namespace}/${name}`),
  );
  return { ...tokens, accounts, pass: (seconds: number) => (now += seconds * 1_000) };
}

test('a token identifies its ServiceAccount', () => {
  const { issue, lookup } = start();
  expect(lookup(issue('shop', 'robot', 'uid-1', 600))).toEqual({
    username: 'system:serviceaccount:shop:robot',
    uid: 'uid-1',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
    extra: { 'authentication.kubernetes.io/credential-id': ['JTI=random-2'] },
  });
});

test('a token expires', () => {
  const { issue, lookup, pass } = start();
  const token = issue('shop', 'robot', 'uid-1', 600);
  pass(599);
  expect(lookup(token)).toBeDefined();
  pass(1);
  expect(lookup(token)).toBeUndefined();
});

test('a token becomes invalid with its account, even if an account with the same name is created', () => {
  const { issue, lookup, accounts } = start();
  const token = issue('shop', 'robot', 'uid-1', 600);
  accounts.set('shop/robot', 'uid-2');
  expect(lookup(token)).toBeUndefined();
  accounts.delete('shop/robot');
  expect(lookup(token)).toBeUndefined();
});

test('an unknown token has no user', () => {
  expect(start().lookup('random-1')).toBeUndefined();
});
