import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  created,
  createProblems,
  updateProblems,
} from '../../../../test/support/sandbox/built-in-objects.ts';

const SECRET = 'v1 Secret';
const CONFIG_MAP = 'v1 ConfigMap';

test('stringData is copied into data and overrides it', () => {
  const secret = toJson(created(SECRET, { stringData: { a: 'b' }, data: { a: 'Yw==', c: 'ZA==' } }));
  expect(secret).toMatchObject({ type: 'Opaque', data: { a: 'Yg==', c: 'ZA==' } });
  expect(secret).not.toHaveProperty('stringData');
});

test.each([
  [
    'has a key that is not a file name',
    { stringData: { 'a b': 'b' } },
    [
      "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' " +
        "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
    ],
  ],
  [
    'has a key with the parent folder',
    { stringData: { '..a': '' } },
    ['data[..a]: Invalid value: "..a": must not start with \'..\''],
  ],
  [
    'is for TLS and is empty',
    { type: 'kubernetes.io/tls' },
    ['data[tls.crt]: Required value', 'data[tls.key]: Required value'],
  ],
  [
    'is larger than a megabyte',
    { stringData: { a: 'x'.repeat(1_048_577) } },
    ['data: Too long: may not be more than 1048576 bytes'],
  ],
])('a Secret is rejected if it %s', (_when, fields, expected) => {
  expect(createProblems(SECRET, fields as never)).toEqual(expected);
});

test.each([
  ['data changes', { immutable: true, stringData: { a: 'c' } }, ['data']],
  ['it becomes mutable', { stringData: { a: 'b' } }, ['immutable']],
  ['both data and the flag change', { stringData: {} }, ['immutable', 'data']],
  ['nothing changes', { immutable: true, data: { a: 'Yg==' } }, []],
])('an immutable Secret rejects an update when %s', (_when, after, fields) => {
  expect(updateProblems(SECRET, { immutable: true, stringData: { a: 'b' } }, after as never)).toEqual(
    fields.map((field) => `${field}: Forbidden: field is immutable when \`immutable\` is set`),
  );
});

test.each([
  [
    'has a key twice',
    { data: { a: 'b' }, binaryData: { a: 'Yw==' } },
    ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
  ],
  [
    'is larger than a megabyte',
    { data: { a: 'x'.repeat(1_048_577) } },
    ['[]: Too long: may not be more than 1048576 bytes'],
  ],
])('a ConfigMap is rejected if it %s', (_when, fields, expected) => {
  expect(createProblems(CONFIG_MAP, fields as never)).toEqual(expected);
});
