/** Random expressions about the functions and operators of CEL, mostly with arguments of the right types. */
import { functions } from '../../../src/cel/library/all-functions.ts';
import type { CelFunction } from '../../../src/cel/library/define.ts';
import type { CelType } from '../../../src/cel/types/type.ts';
import type { Seeded } from '../seeded.ts';
import type { MatrixCase, Tagged } from './matrix.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';

const QUANTITIES = '1.5Gi 100m 10Mi .5k 4.Ki -12e6 +0.0000000001 3E 9223372036854775807 8Ei -9Ei 1n 0u'.split(
  ' ',
);

const TEXTS = [
  ...['', ' é😀 ', '\u0000\t\n', '"\'\\/', '\u2028\u202e\ufeff', '${a}'],
  ...'a b abc a,b 1 -7 1.5 true %s %d ^a+$ ( UTC +02:00 0'.split(' '),
  ...'10.0.0.0/8 10.1.0.0/16 10.1.2.3 ::1 fe80::/10 1.2.3 v1.2'.split(' '),
  ...QUANTITIES,
  ...['2026-01-02T03:04:05Z', '1h30m', 'https://a.example:8443/p?q=1#f', '/p', 'uuid', 'example.com/name'],
];

const VALUES: Readonly<Record<string, readonly (string | Tagged)[]>> = {
  bool: ['true', 'false', { bool: true }],
  int: ['0', '1', '-1', '2', '63', '9223372036854775807', { int: '3' }, { int: '-9223372036854775808' }],
  uint: ['0u', '1u', { uint: '18446744073709551615' }],
  double: ['0.0', '-0.0', '1.5', '-2.25', '1e10', '5e-324', '1e21', '9007199254740993.0', { double: '3' }],
  string: [...TEXTS.map((text) => JSON.stringify(text)), ...TEXTS.map((text): Tagged => ({ string: text }))],
  bytes: ["b'a'", { bytes: 'YWJj' }],
  null: ['null', { null: null }],
  timestamp: ["timestamp('2026-01-02T03:04:05Z')", { timestamp: '1969-12-31T23:59:59.5Z' }],
  duration: ["duration('1h30m')", { duration: '-1500000000' }],
  'kubernetes.Quantity': QUANTITIES.map((text) => `quantity('${text}')`),
  'kubernetes.URL': ["url('https://a.example:8443/p?q=1#f')"],
  'net.IP': ["ip('10.1.2.3')", "ip('::1')"],
  'net.CIDR': ["cidr('10.0.0.0/8')", "cidr('10.1.0.0/16')", "cidr('fe80::/10')"],
  'kubernetes.Semver': ["semver('1.2.3')", "semver('1.2.3-rc.1')"],
  'kubernetes.NamedFormat': ['format.dns1123Label()', 'format.uuid()'],
};

const NAMES = Object.keys(VALUES);
const OVERLOADS = [...functions.values()]
  .flat()
  .filter(({ name, parameters }) => name !== 'jsonpatch.escapeKey' && !parameters.some(isOfAuthorizer));

function isOfAuthorizer(type: CelType): boolean {
  return type.kind === 'named' && type.name.startsWith('kubernetes.authorization.');
}

export function caseFrom(chance: Seeded): MatrixCase {
  const variables: Record<string, string> = {};
  const bindings: Record<string, Tagged> = {};
  const expression = anyFrom(2, []);
  return { group: 'generated', expression, variables, bindings, kubernetes: {} };

  function anyFrom(depth: number, inner: readonly string[]): string {
    const form = chance.below(10);
    if (form < 7) return callFrom(depth, inner);
    if (form === 7) return macroFrom(depth, inner);
    const [left, right] = [typed('any', depth - 1, inner), typed('any', depth - 1, inner)];
    if (form === 8) return `(${typed('bool', depth - 1, inner)} ? ${left} : ${right})`;
    return `(${left} ${chance.pick(['==', '!='])} ${right})`;
  }

  function callFrom(depth: number, inner: readonly string[]): string {
    const overload = chance.pick(OVERLOADS);
    const parts = overload.parameters.map((type) => argument(type, depth, inner));
    return written(overload, parts);
  }

  function macroFrom(depth: number, inner: readonly string[]): string {
    const name = `v${inner.length}`;
    const range = typed(chance.chance(0.8) ? 'list' : 'map', depth - 1, inner);
    const within = [...inner, name];
    const predicate = () => typed('bool', depth - 1, within);
    const any = () => (depth > 0 ? anyFrom(depth - 1, within) : name);
    const two = `${name}, w${inner.length}`;
    return chance.pick([
      () => `${range}.all(${name}, ${predicate()})`,
      () => `${range}.exists(${name}, ${predicate()})`,
      () => `${range}.exists_one(${name}, ${predicate()})`,
      () => `${range}.filter(${name}, ${predicate()})`,
      () => `${range}.map(${name}, ${any()})`,
      () => `${range}.sortBy(${name}, ${name})`,
      () => `${range}.transformList(${two}, ${any()})`,
      () => `${range}.transformMap(${two}, ${any()})`,
      () => `${typed('optional', depth - 1, inner)}.optMap(${name}, ${any()})`,
    ])();
  }

  function argument(type: CelType, depth: number, inner: readonly string[]): string {
    const wanted = chance.chance(0.12) ? 'any' : type.kind === 'named' ? type.name : type.kind;
    if (depth > 0 && chance.chance(0.3)) {
      const makers = OVERLOADS.filter(
        ({ result }) => result.kind === type.kind && (!('name' in result) || result.name === wanted),
      );
      if (makers.length > 0) {
        const maker = chance.pick(makers);
        return written(
          maker,
          maker.parameters.map((one) => argument(one, depth - 1, inner)),
        );
      }
    }
    const [of] = 'parameters' in type ? type.parameters : [];
    const value = typed(wanted, depth, inner, of);
    return chance.chance(0.25) ? `dyn(${value})` : value;
  }

  function typed(wanted: string, depth: number, inner: readonly string[], of?: CelType): string {
    if (inner.length > 0 && chance.chance(0.4)) return chance.pick(inner);
    const items = () => {
      const name =
        of?.kind === 'named' && of.name in VALUES ? of.name : chance.pick(['int', 'string', 'string']);
      if (of?.kind === 'list' || of?.kind === 'optional') return [1, 2].map(() => typed(of.kind, 0, []));
      return Array.from({ length: chance.below(4) }, () => valueOf(name, !chance.chance(0.8)));
    };
    switch (wanted) {
      case 'list':
        return `[${items().join(', ')}]`;
      case 'map':
        return `{"a": ${valueOf('int', false)}}`;
      case 'optional':
        return chance.pick([
          'optional.none()',
          `optional.of(${valueOf('int', false)})`,
          '{"a": 1}.?a',
          '[1][?2]',
        ]);
      case 'type':
        return chance.pick(['int', 'string', 'type(1)']);
    }
    if (wanted in VALUES) return valueOf(wanted, true);
    return depth > 0 && chance.chance(0.3) ? anyFrom(depth - 1, inner) : valueOf(chance.pick(NAMES), true);
  }

  function valueOf(type: string, mayBeVariable: boolean): string {
    const all = VALUES[type] ?? [];
    const value = chance.pick(mayBeVariable ? all : all.filter((one) => typeof one === 'string'));
    if (typeof value === 'string') return value;
    const name = `x${Object.keys(variables).length}`;
    variables[name] = type === 'null' || chance.chance(0.6) ? 'dyn' : type;
    bindings[name] = value;
    return name;
  }
}

function written({ name, member }: CelFunction, parts: readonly string[]): string {
  const [, operator] = /^_(\W+)_$/.exec(name) ?? [];
  const [first = '', ...rest] = parts;
  if (operator !== undefined) return `(${first} ${operator} ${rest.join()})`;
  if (name === '@in') return `(${first} in ${rest.join()})`;
  if (/^\W_$/.test(name)) return `${name.slice(0, 1)}(${first})`;
  return member ? `${first}.${name}(${rest.join(', ')})` : `${name}(${parts.join(', ')})`;
}

const TEXT: Schema = { type: 'string' };
const ITEM: Schema = { type: 'object', properties: { k: TEXT, v: { type: 'integer' } } };
const array = (items: Schema, more: object = {}): Schema => ({ type: 'array', items, ...more });
const ATOMIC = { 'x-kubernetes-list-type': 'atomic' };
const SET = { 'x-kubernetes-list-type': 'set' };
const MAP = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] };

const LISTS: Readonly<Record<string, Schema>> = {
  a: array(TEXT, ATOMIC),
  s: array(TEXT, SET),
  t: array(TEXT, SET),
  n: array({ type: 'integer' }, SET),
  m: array(ITEM, MAP),
  o: array(ITEM, MAP),
  l: array(ITEM),
};
const TEXT_LISTS = ['a', 's', 't'];
const OBJECT_LISTS = ['m', 'o', 'l'];

export function ruleCaseFrom(chance: Seeded): { readonly schema: Schema; readonly object: JsonObject } {
  const isText = chance.chance(0.5);
  const literal = () =>
    isText
      ? `[${textsFrom()
          .map((text) => `'${text}'`)
          .join(', ')}]`
      : `[${itemsFrom()
          .map(({ k }) => `{'k': dyn('${k}'), 'v': dyn(1)}`)
          .join(', ')}]`;
  const list = (): string => {
    if (chance.chance(0.25)) return literal();
    const one = `self.${chance.pick(isText ? TEXT_LISTS : OBJECT_LISTS)}`;
    return chance.chance(0.2) ? `${one}.filter(x, true)` : one;
  };
  const sum = () => (chance.chance(0.5) ? list() : `(${list()} + ${list()})`);
  const rule = chance.pick([
    () => `${sum()} == ${sum()}`,
    () => `${sum()} != ${sum()}`,
    () => `(${sum()}).size() == ${chance.below(5)}`,
    () => (isText ? `(${sum()}).exists(x, x == 'b')` : `(${sum()}).exists(x, x.k == 'b' && x.v == 1)`),
    () => (isText ? `'b' in ${sum()}` : `${list()} in [${list()}]`),
    () => 'self.n == self.n.filter(x, x > 0)',
  ])();
  const object = {
    ...Object.fromEntries(TEXT_LISTS.map((name) => [name, unique(textsFrom(), String)])),
    n: unique(
      textsFrom().map((text) => text.charCodeAt(0) - 97),
      String,
    ),
    ...Object.fromEntries(OBJECT_LISTS.map((name) => [name, unique(itemsFrom(), ({ k }) => k)])),
  };
  const schema = { type: 'object', properties: LISTS, 'x-kubernetes-validations': [{ rule }] } as const;
  return { schema, object };

  function textsFrom(): readonly string[] {
    return Array.from({ length: chance.below(4) }, () => chance.pick(['a', 'b', 'c']));
  }

  function itemsFrom() {
    return textsFrom().map((k) => ({ k, v: chance.below(2) }));
  }
}

const unique = <T>(items: readonly T[], keyOf: (item: T) => string): readonly T[] => [
  ...new Map(items.map((item) => [keyOf(item), item])).values(),
];
