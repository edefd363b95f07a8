import { describe, expect, test } from 'vitest';
import { parseJson, stringifyJson, type JsonValue } from '../../json/json.ts';
import { applyJsonPatch } from './json-patch.ts';
import { parsed, statusOf } from '../../../test/support/sandbox/failures.ts';

const DOCUMENT = '{"a":{"b":1,"n":null},"list":[1,2,3],"objects":[{"x":1}],"text":"abc","x/y~z":0}';

// What a kube-apiserver answers to other patches is recorded: test/integration/mutating-policies.test.ts.
describe('patches that apply', () => {
  test.each<[operation: string, changed: string]>([
    ['{"op":"add","path":"/list/3","value":9}', '"list":[1,2,3,9]'],
    ['{"op":"add","path":"/list/-1","value":9}', '"list":[1,2,3,9]'],
    ['{"op":"remove","path":"/list/-1"}', '"list":[1,2]'],
    ['{"op":"move","from":"/list/0","path":"/list/2"}', '"list":[2,3,1]'],
    ['{"op":"copy","from":"/objects/0","path":"/objects/-"}', '"objects":[{"x":1},{"x":1}]'],
    ['{"op":"copy","from":"/a/absent","path":"/text"}', '"text":null'],
    ['{"op":"test","path":"/a","value":{"n":null,"b":1}}', '"text":"abc"'],
    ['{"op":"test","path":"/list/-1","value":3}', '"text":"abc"'],
  ])('%s', (operation, changed) => {
    const document = parsed(DOCUMENT);
    const patched = applyJsonPatch(document, [parseJson(operation)]);
    expect(patched).toEqual({ ...document, ...parsed(`{${changed}}`) });
    expect(stringifyJson(document)).toBe(DOCUMENT);
  });

  test('big integers are exact', () => {
    const big = 9_007_199_254_740_993n;
    expect(applyJsonPatch({ a: big }, [{ op: 'copy', from: '/a', path: '/b' }])).toEqual({ a: big, b: big });
  });

  test('keys with a meaning in JavaScript are plain data', () => {
    for (const key of ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString']) {
      const before = parsed(`{"data":{"${key}":{"x":1}}}`);
      const after = (...operations: JsonValue[]) => JSON.stringify(applyJsonPatch(before, operations));
      const path = `/data/${key}`;
      expect(after({ op: 'add', path: `${path}/y`, value: 2 })).toBe(`{"data":{"${key}":{"x":1,"y":2}}}`);
      expect(after({ op: 'test', path, value: { x: 1 } }, { op: 'remove', path })).toBe('{"data":{}}');
      expect(after({ op: 'add', path, value: parsed(`{"${key}":3}`) })).toBe(
        `{"data":{"${key}":{"${key}":3}}}`,
      );
      expect(statusOf(() => applyJsonPatch({ data: {} }, [{ op: 'remove', path }])).code).toBe(422);
      expect(
        statusOf(() => applyJsonPatch({ data: {} }, [{ op: 'add', path: `${path}/y`, value: 1 }])).code,
      ).toBe(422);
    }
  });
});

describe('patches that do not apply', () => {
  test.each([
    '{"op":"add","path":"/a/n/c","value":2}',
    '{"op":"add","path":"/list/1e0","value":9}',
    '{"op":"remove","path":"/list/-"}',
    '{"op":"remove","path":""}',
    '{"op":"replace","path":"/list/length","value":0}',
    '{"op":"move","from":"/a/absent","path":"/b"}',
    '{"op":"move","from":"/a","path":"/a/b"}',
    'null',
  ])('%s', (operation) => {
    expect(statusOf(() => applyJsonPatch(parsed(DOCUMENT), [parseJson(operation)]))).toMatchObject({
      code: 422,
      reason: 'Invalid',
      message: 'the server rejected our request due to an error in our request',
    });
  });

  test('copies must not inflate the object', () => {
    const copies = Array.from({ length: 40 }, () => ({ op: 'copy', from: '/a', path: '/a/-' }));
    expect(statusOf(() => applyJsonPatch({ a: ['x'.repeat(100)] }, copies)).code).toBe(422);
  });
});
