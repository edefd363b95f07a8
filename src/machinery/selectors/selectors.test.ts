import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from '../name-problems.ts';
import { parseFieldSelector, parseLabelSelector } from './selectors.ts';

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiFailure && error.status.code === 400) return error.message;
    throw error;
  }
  throw new Error('expected an error');
}

describe('label selectors', () => {
  const labels = { app: 'web', tier: '', size: '12', in: 'notin', constructor: 'x' };

  test.each([
    ['', true],
    [' ', true],
    ['app = web , size', true],
    ['app in(db)', false],
    ['none notin (db)', true],
    ['app notin (web,db)', false],
    ['tier=', true],
    ['tier in ()', true],
    ['tier in (a,,b)', true],
    ['tier in (a,)', true],
    ['!none,app', true],
    ['size>11', true],
    ['size<13,size>0', true],
    ['app>1', false],
    ['none<1', false],
    ['in in (notin)', true],
    ['constructor=x', true],
    ['hasOwnProperty!=x', true],
  ])('%j: %s', (selector, selected) => {
    expect(parseLabelSelector(selector)(labels)).toBe(selected);
  });

  test.each([
    ['app in web', "unable to parse requirement: found 'web' expected: '('"],
    ['app web', "unable to parse requirement: found 'web', expected: in, notin, =, ==, !=, gt, lt"],
    ['app in (a b)', "unable to parse requirement: found 'b', expected: ',' or ')'"],
    ['app in (a', "unable to parse requirement: found '', expected: ',' or ')'"],
    ['app in (a,=)', "unable to parse requirement: found '=', expected: ',', or identifier"],
    ['!app=x', "found '=', expected: ',' or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    [',a', "found ',', expected: !, identifier, or 'end of string'"],
    [
      'a>x',
      "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ],
    [
      'a>9223372036854775808',
      "unable to parse requirement: values[0]: Invalid value: \"9223372036854775808\": for 'Gt', 'Lt' operators, the value must be an integer",
    ],
  ])('%j is rejected in the words of the API server', (selector, message) => {
    expect(refusal(() => parseLabelSelector(selector))).toBe(message);
  });

  test('an invalid key or value is rejected with its place', () => {
    expect(refusal(() => parseLabelSelector('a/b/c'))).toMatch(
      /^unable to parse requirement: <nil>: Invalid value: "a\/b\/c": a valid label key must consist of/,
    );
    expect(refusal(() => parseLabelSelector('app in (ok,-x,y-)'))).toMatch(
      /^unable to parse requirement: \[values\[0\]\[app\]: Invalid value: "-x": a valid label .*, values\[2\]\[app\]: Invalid value: "y-"/,
    );
  });

  test('every text is a selector or is rejected', () => {
    const piece = fc.constantFrom(
      'a',
      'in',
      'notin',
      '=',
      '==',
      '!=',
      '!',
      '(',
      ')',
      ',',
      '<',
      '>',
      ' ',
      '\0',
      '1',
      'é',
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        try {
          expect(typeof parseLabelSelector(pieces.join(''))(labels)).toBe('boolean');
        } catch (error) {
          expect(error).toBeInstanceOf(ApiFailure);
        }
      }),
    );
  });
});

describe('label syntax', () => {
  test.each([
    ['a', 0],
    ['example.com/A_b.c', 0],
    ['a'.repeat(63), 0],
    ['a'.repeat(64), 1],
    ['', 2],
    ['/a', 1],
    ['A/a', 1],
    ['a/', 2],
    ['-a/-b', 2],
    [`${'a'.repeat(254)}/x`, 1],
  ])('key %j has %i problems', (key, count) => {
    expect(labelKeyProblems(key)).toHaveLength(count);
  });

  test.each([
    ['', 0],
    ['1_b', 0],
    ['x'.repeat(64), 1],
    ['_', 1],
    [`${'x'.repeat(63)}-`, 2],
  ])('value %j has %i problems', (value, count) => {
    expect(labelValueProblems(value)).toHaveLength(count);
  });
});

describe('field selectors', () => {
  const object: ApiObject = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'db', namespace: 'prod' },
  };
  const metadata = {
    'metadata.name': (one: ApiObject) => one.metadata.name ?? '',
    'metadata.namespace': (one: ApiObject) => one.metadata.namespace ?? '',
  };
  const fields = { ...metadata, type: () => 'a,b=c\\d' };

  test.each([
    ['', true],
    ['metadata.name=db', true],
    ['metadata.name==db,metadata.namespace=prod', true],
    ['metadata.name!=db', false],
    ['metadata.namespace!=test,,', true],
    ['=,metadata.name=db', true],
    ['type=a\\,b\\=c\\\\d', true],
    ['type!=a\\,b', true],
    ['type=', false],
  ])('%j: %s', (selector, selected) => {
    expect(parseFieldSelector(selector, fields)(object)).toBe(selected);
  });

  test.each([
    ['data.a=x', 'field label not supported: data.a'],
    ['toString=x', 'field label not supported: toString'],
    ['metadata.name', "invalid selector: 'metadata.name'; can't understand 'metadata.name'"],
    ['type=a\\b', 'invalid field selector: invalid escape sequence: \\b'],
    ['type=a\\', 'invalid field selector: invalid escape sequence: \\'],
    ['type=a=b', 'invalid field selector: unescaped character in value: 61'],
  ])('%j is rejected in the words of the API server', (selector, message) => {
    expect(refusal(() => parseFieldSelector(selector, fields))).toBe(message);
  });

  test('an escaped value selects exactly itself', () => {
    const escape = (value: string) => value.replace(/[\\,=]/g, (special) => `\\${special}`);
    fc.assert(
      fc.property(fc.string(), fc.string(), (value, other) => {
        const accepts = (actual: string) =>
          parseFieldSelector(`f=${escape(value)}`, { f: () => actual })(object);
        expect(accepts(value)).toBe(true);
        expect(accepts(other)).toBe(other === value);
      }),
    );
  });
});
