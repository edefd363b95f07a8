import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import { created, createProblems } from '../../../../test/support/sandbox/built-in-objects.ts';

const SECRET = 'v1 Secret';

test('stringData is copied into data and overrides it', () => {
  const secret = toJson(created(SECRET, { stringData: { a: 'b' }, data: { a: 'Yw==', c: 'ZA==' } }));
  expect(secret).toMatchObject({ type: 'Opaque', data: { a: 'Yg==', c: 'ZA==' } });
  expect(secret).not.toHaveProperty('stringData');
});

test('an empty Secret for TLS is rejected', () => {
  const problems = ['data[tls.crt]: Required value', 'data[tls.key]: Required value'];
  expect(createProblems(SECRET, { type: 'kubernetes.io/tls' })).toEqual(problems);
});
