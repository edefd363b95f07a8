import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  decoded,
  updateProblems,
} from '../../../../test/support/sandbox/built-in-objects.ts';

const SECRET = 'v1 Secret';
const CONFIG_MAP = 'v1 ConfigMap';

test('stringData is copied into data and overrides it', () => {
  const secret = toJson(created(SECRET, { stringData: { a: 'b' }, data: { a: 'Yw==', c: 'ZA==' } }));
  expect(secret).toMatchObject({ type: 'Opaque', data: { a: 'Yg==', c: 'ZA==' } });
  expect(secret).not.toHaveProperty('stringData');
});

test('the type of a Secret defaults to Opaque', () => {
  expect(toJson(decoded(SECRET, { type: '' }))).toMatchObject({ type: 'Opaque' });
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
    'has a key with the current folder',
    { stringData: { '.': '' } },
    ['data[.]: Invalid value: ".": must not be \'.\''],
  ],
  [
    'is for TLS and is empty',
    { type: 'kubernetes.io/tls' },
    ['data[tls.crt]: Required value', 'data[tls.key]: Required value'],
  ],
  [
    'is for TLS and has no private key',
    { type: 'kubernetes.io/tls', stringData: { 'tls.crt': '' } },
    ['data[tls.key]: Required value'],
  ],
  [
    'is for a registry and is empty',
    { type: 'kubernetes.io/dockerconfigjson' },
    ['data[.dockerconfigjson]: Required value'],
  ],
  [
    'is for a registry and is not JSON',
    { type: 'kubernetes.io/dockercfg', stringData: { '.dockercfg': '{' } },
    ['data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character in JSON input'],
  ],
  [
    'is for basic auth and has no user name',
    { type: 'kubernetes.io/basic-auth' },
    ['data[username]: Required value', 'data[password]: Required value'],
  ],
  ['is for SSH and has no key', { type: 'kubernetes.io/ssh-auth' }, ['data[ssh-privatekey]: Required value']],
  [
    'is for a service account and names none',
    { type: 'kubernetes.io/service-account-token' },
    ['metadata.annotations[kubernetes.io/service-account.name]: Required value'],
  ],
  [
    'is larger than a megabyte',
    { stringData: { a: 'x'.repeat(1_048_577) } },
    ['data: Too long: may not be more than 1048576 bytes'],
  ],
])('a Secret is rejected if it %s', (_when, fields, expected) => {
  expect(createProblems(SECRET, fields as never)).toEqual(expected);
});

test('a basic-auth Secret may have a user name without a password', () => {
  expect(createProblems(SECRET, { type: 'kubernetes.io/basic-auth', stringData: { username: 'a' } })).toEqual(
    [],
  );
});

test('the type of a Secret is immutable', () => {
  expect(updateProblems(SECRET, { type: 'a' }, { type: 'b' })).toEqual([
    'type: Invalid value: "b": field is immutable',
  ]);
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
    'has a key with the current folder',
    { binaryData: { '..': '' } },
    ['binaryData[..]: Invalid value: "..": must not be \'..\''],
  ],
  [
    'is larger than a megabyte',
    { data: { a: 'x'.repeat(1_048_577) } },
    ['[]: Too long: may not be more than 1048576 bytes'],
  ],
])('a ConfigMap is rejected if it %s', (_when, fields, expected) => {
  expect(createProblems(CONFIG_MAP, fields as never)).toEqual(expected);
});

test('an immutable ConfigMap rejects changes to data and binaryData', () => {
  const before = { immutable: true, data: { a: 'b' } };
  const after = { immutable: true, data: { a: 'c' }, binaryData: { z: 'YQ==' } };
  expect(updateProblems(CONFIG_MAP, before, after)).toEqual([
    'data: Forbidden: field is immutable when `immutable` is set',
    'binaryData: Forbidden: field is immutable when `immutable` is set',
  ]);
});

test('the data column counts the keys of data and binaryData', () => {
  expect(cells(CONFIG_MAP, created(CONFIG_MAP, { data: { a: '' }, binaryData: { b: '' } }))).toEqual({
    Data: 2,
  });
  expect(cells(SECRET, created(SECRET, { stringData: { a: '' } }))).toEqual({ Type: 'Opaque', Data: 1 });
});
