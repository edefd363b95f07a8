import { expect, test } from 'vitest';
import { evaluate } from '../../../test/support/cel/evaluate.ts';

const isValid = (format: string, text: string) =>
  evaluate(`format.${format}().validate(text).hasValue()`, { text }) === false;

test.each([
  ['dns1123Label', ['my-name', 'a', '1a'], ['My', '-a', 'a-', 'a.b', '', 'a'.repeat(64)]],
  ['dns1123Subdomain', ['a.b-c.d', 'a'.repeat(253)], ['a..b', 'a.', '_', 'a'.repeat(254)]],
  ['dns1035Label', ['my-name', 'a1'], ['1a', 'a.b']],
  ['qualifiedName', ['MyName', 'a.b/c', 'a.example.com/My.Name_1'], ['a/b/c', '/a', 'a/', 'A_/b', '-a', '']],
  ['dns1123LabelPrefix', ['my-label-'], ['my.label-', '-']],
  ['dns1123SubdomainPrefix', ['my.label-'], ['my..label']],
  ['dns1035LabelPrefix', ['my-label-'], ['1my-label-']],
  ['labelValue', ['', 'MyValue', 'a.b_c'], ['a b', '-a', 'a'.repeat(64)]],
  ['uri', ['https://example.com', '/x'], ['x', 'https://a b']],
  ['uuid', ['123e4567-e89b-12d3-a456-426614174000', '123E4567E89B12D3A456426614174000'], ['123e4567']],
  ['byte', ['aGVsbG8=', 'aGVsbG8x'], ['aGVsbG8', '', 'a?==']],
  ['date', ['2026-02-28', '2024-02-29'], ['2026-02-29', '2026-2-8', '2026-02-28T00:00:00Z']],
  [
    'datetime',
    ['2026-01-01T00:00:00Z', '2026-01-01t23:59:59.5+01:00'],
    ['2026-01-01', '2026-01-01T24:00:00Z'],
  ],
])('%s accepts only valid strings', (format, valid, invalid) => {
  expect(valid.filter((text) => !isValid(format, text))).toEqual([]);
  expect(invalid.filter((text) => isValid(format, text))).toEqual([]);
});

test('errors have the messages of Kubernetes', () => {
  expect(evaluate("format.dns1123Label().validate('a.b').value()")).toEqual(['must not contain dots']);
  expect(evaluate("format.qualifiedName().validate('x/').value()")).toEqual([
    'name part must be non-empty',
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
  ]);
});

test('a format is found by name', () => {
  expect(evaluate("format.named('uuid').value().validate('x').value()")).toEqual([
    'does not match the UUID format',
  ]);
  expect(evaluate("format.named('constructor').hasValue()")).toBe(false);
});
