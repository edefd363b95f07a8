import { expect, test } from 'vitest';

import { negotiate, negotiateWatch, parseBody } from './content-type.ts';
import { ApiFailure } from '../../machinery/failure.ts';

const object = { kind: 'object', encoding: 'json' };
const table = { kind: 'table', version: 'v1', encoding: 'json' };

test.each([
  ['nothing', undefined, object],
  ['an empty header', '', object],
  ['curl', '*/*', object],
  ['client-node', 'application/json', object],
  ['client-go', 'application/vnd.kubernetes.protobuf,application/json', object],
  [
    'kubectl get',
    'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json',
    table,
  ],
  [
    'an old kubectl get',
    'application/json;as=Table;v=v1beta1;g=meta.k8s.io',
    { ...table, version: 'v1beta1' },
  ],
  [
    'a metadata client',
    'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
    { kind: 'partial-metadata-list', version: 'v1', encoding: 'json' },
  ],
  [
    'a metadata client that gets',
    'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
    { kind: 'partial-metadata', version: 'v1', encoding: 'json' },
  ],
  ['a user with curl', 'application/yaml', { kind: 'object', encoding: 'yaml' }],
  [
    'higher quality last',
    'application/json;q=0.2, application/yaml;q=0.5',
    { kind: 'object', encoding: 'yaml' },
  ],
  ['a browser', 'text/html,application/xhtml+xml,*/*;q=0.8', object],
  ['a wildcard before a type that it covers', '*/*,application/yaml', { kind: 'object', encoding: 'yaml' }],
  ['a wildcard subtype', 'application/*', object],
  ['an unknown parameter', 'application/json;charset=utf-8', object],
  [
    'an unknown conversion with an alternative',
    'application/json;as=Table;v=v2;g=meta.k8s.io,application/json',
    object,
  ],
  ['a stream', 'application/json;stream=watch', object],
])('%s is understood', (_who, accept, accepted) => {
  expect(negotiate(accept)).toEqual(accepted);
});

const refusal = (call: () => unknown) => {
  try {
    call();
  } catch (error) {
    if (error instanceof ApiFailure) return error.status;
    throw error;
  }
  throw new Error('expected an error');
};

test.each([
  'text/html',
  'nonsense',
  'application/vnd.kubernetes.protobuf',
  'application/json;as=Table;v=v1;g=example.com',
  'application/json;as=constructor;v=v1;g=meta.k8s.io',
  'application/json;v=v1',
  'application/json;stream=other',
])('a client that only accepts %s gets a 406', (accept) => {
  expect(refusal(() => negotiate(accept))).toMatchObject({
    code: 406,
    reason: 'NotAcceptable',
    message: 'only the following media types are accepted: application/json, application/yaml',
  });
});

test('a watch is only written as JSON', () => {
  expect(negotiateWatch('application/yaml,application/json;as=Table;v=v1;g=meta.k8s.io')).toEqual(table);
  expect(refusal(() => negotiateWatch('application/yaml'))).toMatchObject({
    code: 406,
    message: 'only the following media types are accepted: application/json;stream=watch',
  });
});

test.each([
  [undefined, '{"a":9007199254740993}', { a: 9007199254740993n }],
  ['application/json; charset=utf-8', '[1]', [1]],
  ['application/yaml', 'a: 1\nb: [x, 2.5, true, null, ~]', { a: 1, b: ['x', 2.5, true, null, null] }],
  [
    'application/yaml',
    'int64: 9223372036854775807\nlarger: 9223372036854775808',
    { int64: 2n ** 63n - 1n, larger: 2 ** 63 },
  ],
  ['application/yaml', '{"json": "is yaml"}', { json: 'is yaml' }],
  ['application/yaml', '{looks: like JSON, but: [is, not]}', { looks: 'like JSON', but: ['is', 'not'] }],
  ['application/yaml', 'a: 9007199254740993', { a: 9007199254740993n }],
  ['application/yaml', 'a: 2026-01-01T00:00:00Z', { a: '2026-01-01T00:00:00Z' }],
  ['application/yaml', 'a: 1\na: 2', { a: 2 }],
  ['application/yaml', '8080: http\ntrue: x', { 8080: 'http', true: 'x' }],
  ['application/yaml', 'a: &x {b: 1}\nc: *x\nd: {<<: *x}', { a: { b: 1 }, c: { b: 1 }, d: { b: 1 } }],
  ['application/yaml', '', null],
])('a body of %s is parsed: %j', (contentType, text, value) => {
  expect(parseBody(Buffer.from(text), contentType)).toEqual(value);
});

test('keys with a meaning in JavaScript are plain data in YAML', () => {
  const value = parseBody(Buffer.from('__proto__: {a: 1}\nconstructor: x'), 'application/yaml');
  expect(JSON.stringify(value)).toBe('{"__proto__":{"a":1},"constructor":"x"}');
});

test.each(['text/plain', 'application/x-www-form-urlencoded'])('a body of %s is rejected', (contentType) => {
  expect(refusal(() => parseBody(Buffer.from('x'), contentType))).toMatchObject({
    code: 415,
    reason: 'UnsupportedMediaType',
    message:
      'the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf',
  });
});

test.each([
  ['application/json', '{x'],
  ['application/json', ''],
  ['application/yaml', 'a: [b'],
  ['application/yaml', 'a: 1\n---\nb: 2'],
  ['application/yaml', 'a: *unknown'],
  ['application/yaml', 'a: .nan'],
])('a body that is not valid %s is rejected: %j', (contentType, text) => {
  expect(refusal(() => parseBody(Buffer.from(text), contentType))).toMatchObject({
    code: 400,
    reason: 'BadRequest',
  });
});
