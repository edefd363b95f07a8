import { describe, expect, test } from 'vitest';

import { diff, verifiedDiff } from './json-diff.ts';
import { parseJson, stringifyJson, type JsonObject, type JsonValue } from './json.ts';
import { applyPatch } from './json-patch.ts';

const containers = Array.from({ length: 50 }, (_, index) => ({ name: `c${index}`, image: 'nginx', env: [] }));
const inSpec = (list: readonly JsonValue[]): JsonObject => ({ spec: { list } });

describe('diff', () => {
  test.each<[string, JsonObject, JsonObject, readonly string[]]>([
    ['nothing changed', { a: [1] }, { a: [1] }, []],
    ['a field is added', { a: {} }, { a: { b: 1 } }, ['add /a/b']],
    ['a field is removed', { a: { b: 1 } }, { a: {} }, ['remove /a/b']],
    ['a field changes', { a: { b: 1 } }, { a: { b: 2 } }, ['replace /a/b']],
    ['a field changes its type', { a: [] }, { a: {} }, ['replace /a']],
    ['keys need escaping', {}, { 'a/b~c': 1 }, ['add /a~1b~0c']],
    [
      'an element is put in front of 50',
      inSpec(containers),
      inSpec([{ name: 'sidecar' }, ...containers]),
      ['add /spec/list/0'],
    ],
    ['the first of 50 is removed', inSpec(containers), inSpec(containers.slice(1)), ['remove /spec/list/0']],
    [
      'an element with a name changes while others come and go',
      inSpec([{ name: 'a' }, { name: 'b', x: 1 }, { name: 'c' }]),
      inSpec([{ name: 'b', x: 2 }, { name: 'd' }, { name: 'c', y: 1 }]),
      ['remove /spec/list/0', 'add /spec/list/1', 'replace /spec/list/0/x', 'add /spec/list/2/y'],
    ],
    [
      'elements with names change places',
      inSpec([{ name: 'a' }, { name: 'b' }]),
      inSpec([{ name: 'b' }, { name: 'a' }]),
      ['replace /spec/list/0/name', 'replace /spec/list/1/name'],
    ],
    [
      'a list of another length contains only numbers',
      inSpec([1, 2, 3]),
      inSpec([4, 5]),
      ['replace /spec/list'],
    ],
    [
      'one of 1,500 is removed',
      inSpec(numbers(1_500)),
      inSpec(numbers(1_500).filter((n) => n !== 700)),
      ['remove /spec/list/700'],
    ],
  ])('when %s', (_when, before, after, expected) => {
    const patch = diff(before, after);
    expect(patch.map(({ op, path }) => `${op} ${path}`)).toEqual(expected);
    expect(applyPatch(before, patch)).toEqual(after);
  });

  test.each([
    ['changed', (n: number) => (n % 2 === 0 ? -n - 1 : n)],
    ['grown', (n: number) => (n % 2 === 0 ? { n } : n)],
  ])('a list of 2,000 elements, half of them %s, gives one operation in little time', (_how, change) => {
    const before = inSpec(numbers(2_000));
    const after = inSpec(numbers(2_000).map(change));
    const started = process.cpuUsage();
    const patch = verifiedDiff(before, after);
    expect(process.cpuUsage(started).user).toBeLessThan(1_000_000);
    expect(patch).toHaveLength(1);
  });

  test('values that differ 10,000 levels deep do not overflow the stack', () => {
    const deep = (leaf: string) =>
      parseJson(`{"a":${'{"a":'.repeat(10_000)}${leaf}${'}'.repeat(10_000)}}`) as JsonObject;
    expect(verifiedDiff(deep('1'), deep('2'))).toHaveLength(1);
    expect(verifiedDiff(deep('1'), deep('1'))).toEqual([]);
  });

  test('large integers stay exact in changed and unchanged parts', () => {
    const before = parseJson('{"a":9007199254740993,"b":[1]}') as JsonObject;
    const patch = verifiedDiff(before, { ...before, c: before.a ?? null });
    expect(stringifyJson(patch)).toBe('[{"op":"add","path":"/c","value":9007199254740993}]');
  });
});

describe('verifiedDiff', () => {
  const before = { a: { b: { c: 1, d: [1] } }, e: 1 };
  const after = { a: { b: { c: 2, d: [2, 3] } }, e: 1 };

  test.each([
    ['does not apply', [{ op: 'remove', path: '/a/x' } as const]],
    ['gives another result', [{ op: 'replace', path: '/a/b/c', value: 3 } as const]],
  ])('a patch that %s is replaced: the smallest field with the change is written', (_how, wrong) => {
    const patch = verifiedDiff(before, after, () => wrong);
    expect(patch.map(({ op, path }) => `${op} ${path}`)).toEqual(['replace /a/b/c', 'replace /a/b/d']);
    expect(applyPatch(before, patch)).toEqual(after);
  });
});

describe('applyPatch', () => {
  test.each([
    ['a missing parent', { op: 'add', path: '/x/y', value: 1 }],
    ['a parent without members', { op: 'add', path: '/n/y', value: 1 }],
    ['removal of a missing field', { op: 'remove', path: '/x' }],
    ['replacement of a missing field', { op: 'replace', path: '/x', value: 1 }],
    ['an inherited member', { op: 'remove', path: '/toString' }],
    ['an index beyond the list', { op: 'add', path: '/list/3', value: 1 }],
    ['an index with a leading zero', { op: 'replace', path: '/list/01', value: 1 }],
    ['the whole document', { op: 'remove', path: '' }],
    ['a path without a slash', { op: 'remove', path: 'list' }],
  ] as const)('%s is an error', (_what, operation) => {
    expect(() => applyPatch({ list: [1, 2], n: 1 }, [operation])).toThrow();
  });
});

function numbers(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
