import { describe, expect, test } from 'vitest';

import { describePlace, objectsOf, parseDocuments } from './input.ts';

const values = (text: string) => parseDocuments(text, 'f.yaml').found.map(({ value }) => value);

describe('parseDocuments', () => {
  test('reports the line of each document and skips empty ones', () => {
    const placesIn = (text: string, file: string) =>
      parseDocuments(text, file).found.map(({ place }) => describePlace(place));
    const text = '# only a comment\n---\na: 1\n---\n\n---\n\nb: 2\n';
    expect(placesIn(text, 'f.yaml')).toEqual(['f.yaml:3 (document 1)', 'f.yaml:8 (document 3)']);
    expect(placesIn('a: 1', '-')).toEqual(['standard input:1']);
  });

  test.each<[string, unknown]>([
    ['yes', true],
    ['"yes"', 'yes'],
    ['0644', 420],
    ['0x1f', 31],
    ['1e3', 1000],
    ['1_000', 1000],
    ['~', null],
    ['2026-01-01', '2026-01-01'],
    ['12:30', '12:30'],
    ['!!binary aGk=', 'aGk='],
    ['9007199254740993', 9007199254740993n],
    ['-9223372036854775808', -9223372036854775808n],
    // As in JSON: a number that is not an int64 is a double.
    ['9223372036854775808', 9223372036854775808],
  ])('reads %s as kubectl does', (text, value) => {
    expect(values(`key: ${text}`)).toEqual([{ key: value }]);
  });

  test('anchors and merge keys are resolved', () => {
    expect(values('base: &b { a: 1, b: 2 }\nuse: { <<: *b, b: 3 }')).toEqual([
      { base: { a: 1, b: 2 }, use: { a: 1, b: 3 } },
    ]);
  });

  test.each([
    ['a: [1\nb: 2', /^f\.yaml:2: /],
    ['a: 1\na: 2', /^f\.yaml:2: Map keys must be unique/],
    ['ok: 1\n---\na: .inf', /^f\.yaml:3 \(document 2\): Infinity is not a JSON number/],
    [`a: ${'9'.repeat(400)}`, /^f\.yaml:1: Infinity is not a JSON number/],
    [`a: |${'x'.repeat(100_000)}\n b`, /^f\.yaml:1: .{1,600}…$/],
  ])('%j is a problem with its place', (text, problem) => {
    const { problems } = parseDocuments(text, 'f.yaml');
    expect(problems[0]).toMatch(problem);
  });

  test('deep nesting is a problem, not a crash', () => {
    const { problems } = parseDocuments(`a: ${'['.repeat(20_000)}${']'.repeat(20_000)}`, 'f.yaml');
    expect(problems).toEqual(['f.yaml:1: it is nested too deeply']);
  });

  test('the expansion of aliases is limited', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]'];
    for (let n = 1; n < 10; n++) {
      const [before, now] = [String.fromCharCode(96 + n), String.fromCharCode(97 + n)];
      bomb.push(`${now}: &${now} [${Array.from({ length: 9 }, () => `*${before}`).join(', ')}]`);
    }
    expect(parseDocuments(bomb.join('\n'), 'f.yaml').problems[0]).toMatch(/alias/i);
  });
});

describe('objectsOf', () => {
  const objects = (value: object) =>
    objectsOf({ place: { file: 'f.json' }, value: value as Parameters<typeof objectsOf>[0]['value'] });

  test('a List is split into its items, and a typed list gives them their kind', () => {
    const one = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } };
    expect(objects({ apiVersion: 'v1', kind: 'List', items: [one] }).found).toEqual([
      { place: { file: 'f.json', item: 1 }, object: one },
    ]);
    const { kind, apiVersion, ...bare } = one;
    expect(
      objects({ apiVersion, kind: `${kind}List`, items: [bare, bare] }).found.map((each) => each.object),
    ).toEqual([one, one]);
  });

  test.each<[object, string]>([
    [{ apiVersion: 'v1', kind: 'Pod', metadata: 'a' }, 'f.json: metadata is not an object'],
    [{ apiVersion: 'v1', kind: 'List', items: [{ apiVersion: 'v1' }] }, 'f.json (item 1): kind is missing'],
  ])('%j is not an object: %s', (value, problem) => {
    expect(objects(value)).toEqual({ found: [], problems: [problem] });
  });
});
