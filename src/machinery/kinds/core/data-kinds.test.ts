import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import { created, createProblems } from '../../../../test/support/sandbox/built-in-objects.ts';

const SECRET = 'v1 Secret';

test('stringData is copied into data and overrides it', () => {
  const secret = toJson(created(SECRET, { stringData: { a: 'b' }, data: { a: 'Yw==', c: 'ZA==' } }));
  expect(secret).toMatchObject({ type: 'Opaque', data: { a: 'Yg==', c: 'ZA==' } });
  expect(secret).not.toHaveProperty('stringData');
});

test.each([
  [
    'is for TLS and is empty',
    { type: 'kubernetes.io/tls' },
    ['data[tls.crt]: Required value', 'data[tls.key]: Required value'],
  ],
])('a Secret is rejected if it %s', (_when, fields, expected) => {
  expect(createProblems(SECRET, fields as never)).toEqual(expected);
});
