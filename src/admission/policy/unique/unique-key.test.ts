import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { UniqueRule } from '../../../api/policy-validate.ts';
import { isEqual, parseJson, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { compileSpec, GROUP, policyOf } from '../../../../test/support/admission/policy.ts';
import { heldKeys, MAX_KEYS } from './unique-key.ts';

const self = { group: GROUP, resource: 'servers', namespace: 'store', name: 'a' };

const policyWith = (rule: Partial<UniqueRule>, name?: string) =>
  policyOf({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'], ...rule }] } }, name);

const keysOf = (spec: JsonObject, rule: Partial<UniqueRule> = {}, where: Partial<typeof self> = {}) =>
  heldKeys(policyWith(rule), { metadata: { name: 'a' }, spec }, { ...self, ...where });
const nameOf = (...given: Parameters<typeof keysOf>) => keysOf(...given)[0]?.claim;

describe('the keys of an object', () => {
  test('a long list is read only as far as values are claimed', () => {
    const ips: JsonValue[] = Array.from({ length: MAX_KEYS + 10 }, (_, n) => `${n}`);
    const read = () => expect.unreachable('reads an element that is not claimed');
    Object.defineProperty(ips, MAX_KEYS + 5, { get: read });
    expect(keysOf({ ips }, { paths: ['spec.ips[*]'] })).toHaveLength(MAX_KEYS);
  });

  test.each<[string, JsonObject, Partial<UniqueRule>, readonly (readonly [string, readonly JsonValue[]])[]]>([
    ['a value', { serial: 'X' }, {}, [['spec.serial', ['X']]]],
    ['false, 0 and empty text, which are values', { serial: '' }, {}, [['spec.serial', ['']]]],
    ['empty for an absent value', {}, {}, []],
    ['empty for null', { serial: null }, {}, []],
    [
      'combined values',
      { host: 'h', port: 443 },
      { paths: ['spec.host', 'spec.port'] },
      [['spec.host', ['h', 443]]],
    ],
    [
      'each element of a list, once',
      { ips: ['1', '2', '1', null] },
      { paths: ['spec.ips[*]'] },
      [
        ['spec.ips[0]', ['1']],
        ['spec.ips[1]', ['2']],
      ],
    ],
    [
      'each element with its siblings and its parents',
      { host: 'h', ports: [{ n: 1, proto: 'tcp' }, { n: 1, proto: 'udp' }, { n: 2 }] },
      { paths: ['spec.host', 'spec.ports[*].proto', 'spec.ports[*].n'] },
      [
        ['spec.host', ['h', 'tcp', 1]],
        ['spec.host', ['h', 'udp', 1]],
      ],
    ],
    ['a whole object', { serial: { b: 1, a: [2] } }, {}, [['spec.serial', [{ a: [2], b: 1 }]]]],
  ])('are %s', (_what, spec, rule, expected) => {
    expect(keysOf(spec, rule).map(({ field, values }) => [field, values])).toEqual(expected);
  });

  test('are empty where the policy does not select it', () => {
    const policy = policyOf({
      match: {
        apiGroups: [GROUP],
        resources: ['servers'],
        objectSelector: { matchLabels: { tier: 'gold' } },
      },
      validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] },
    });
    const object = { metadata: { labels: { tier: 'lead' } }, spec: { serial: 'X' } };
    expect(heldKeys(policy, object, self)).toEqual([]);
    expect(heldKeys(policy, { ...object, metadata: { labels: { tier: 'gold' } } }, self)).toHaveLength(1);
  });
});

describe('the name of a claim', () => {
  test.each<[string, Parameters<typeof keysOf>]>([
    ['another value', [{ serial: 'Y' }]],
    ['a string that looks like the number', [{ serial: '1' }]],
    ['another group', [{ serial: 1 }, {}, { group: '' }]],
    ['another namespace, if the scope is the namespace', [{ serial: 1 }, { scope: 'Namespace' }]],
  ])('differs for %s', (_what, given) => {
    expect(nameOf(...given)).not.toBe(nameOf({ serial: 1 }));
  });

  test('is the same for another object, and for another namespace unless that is the scope', () => {
    const here = nameOf({ serial: 'X' });
    expect(nameOf({ serial: 'X' }, {}, { name: 'b', namespace: 'lab' })).toBe(here);
    const scoped = nameOf({ serial: 'X' }, { scope: 'Namespace' });
    expect(nameOf({ serial: 'X' }, { scope: 'Namespace' }, { name: 'b' })).toBe(scoped);
    expect(nameOf({ serial: 'X' }, { scope: 'Namespace' }, { namespace: 'lab' })).not.toBe(scoped);
  });

  test('differs for integers beyond 2^53, and not for spellings of one number', () => {
    const of = (text: string) => nameOf({ serial: parseJson(text) });
    expect(of('9007199254740993')).not.toBe(of('9007199254740992'));
    expect(of('9007199254740993')).not.toBe(of('"9007199254740993"'));
    expect(of('1e2')).toBe(of('100'));
  });

  test('is equal if and only if the values are equal', () => {
    const json = fc.jsonValue({ maxDepth: 3 }).filter((value) => value !== null);
    fc.assert(
      fc.property(json, json, (a, b) => {
        // fast-check generates JSON
        const [left, right] = [a, b].map((value) => nameOf({ serial: value as JsonValue }));
        expect(left === right).toBe(isEqual(a, b));
      }),
    );
    const shuffled = fc.dictionary(fc.string(), fc.integer(), { minKeys: 2 });
    fc.assert(
      fc.property(shuffled, (object) => {
        const reversed = Object.fromEntries(Object.entries(object).reverse());
        expect(nameOf({ serial: { ...reversed } })).toBe(nameOf({ serial: { ...object } }));
      }),
    );
  });

  test('works with the keys __proto__ and constructor', () => {
    const of = (text: string) => nameOf({ serial: parseJson(text) });
    expect(of('{"__proto__":1}')).not.toBe(of('{}'));
    expect(of('{"constructor":1}')).not.toBe(of('{"__proto__":1}'));
  });

  test('works with a value that is 10,000 levels deep', () => {
    const deep = parseJson('['.repeat(10_000) + ']'.repeat(10_000));
    expect(nameOf({ serial: deep })).toMatch(/^serial-/);
  });
});

describe('a rule', () => {
  const problemsOf = (paths: readonly string[]) => {
    const result = compileSpec({ validate: { unique: [{ name: 'serial', paths }] } });
    return result.kind === 'rejected' ? result.problems : [];
  };

  test('over two lists is rejected: the pairs would be ambiguous', () => {
    expect(problemsOf(['spec.a[*].x', 'spec.b[*].x'])).toMatchObject([
      {
        where: 'spec.validate.unique[0].paths',
        message: expect.stringContaining('different lists') as string,
      },
    ]);
  });

  test.each([
    [['spec.a[*].x', 'spec.a[*].y']],
    [['spec.a[*].b[*].x', 'spec.a[*].y', 'spec.z']],
    [['spec.z', 'spec.a[*]']],
  ])('over %j is accepted', (paths) => {
    expect(problemsOf(paths)).toEqual([]);
  });
});
