import { expect, test } from 'vitest';
import { parseJson } from '../json/json.ts';
import { CelError, compileCel } from './cel.ts';

/** The object for which the answers below were recorded (kube-apiserver 1.36.2). */
const object = parseJson(`{
  "metadata": { "labels": { "app": "web", "tier": "x" }, "annotations": { "example.com/a": "b" } },
  "spec": {
    "datacenter": "fra1", "replicas": 3, "units": 9007199254740993, "ratio": 1.5, "tags": ["a", "b", "c"],
    "ports": [{ "name": "http", "port": 80 }, { "name": "https", "port": 443 }],
    "enabled": true, "map": { "k1": "v1", "k.2": "v2" }, "nothing": null
  }
}`);

const evaluate = (expression: string, bindings: Record<string, unknown> = { object }) =>
  compileCel(expression, Object.keys(bindings)).evaluate(bindings);

test.each([
  ['object.spec.replicas == 3', true],
  ['object.spec.replicas / 2 == 1', true],
  ['-object.spec.replicas == -3', true],
  ['object.spec.ratio * 2.0 == 3.0', true],
  ['object.spec.replicas == 3.0', true],
  ['object.spec.units + 1 == 9007199254740994', true],
  ['1.0 / 0.0 > 0.0', true],
  ["object.spec.datacenter + '-x' == 'fra1-x'", true],
  ["object.spec.datacenter.startsWith('fra')", true],
  ["object.spec.datacenter.matches('^[a-z]{3}[0-9]+$')", true],
  ["object.spec.datacenter.matches('RA')", false],
  ["object.spec.datacenter.matches('(?i)FRA')", true],
  ["'a'.matches('(a+)+$')", true],
  ["size('😀') == 1", true],
  ["object.spec.tags[0] == 'a'", true],
  ["!('z' in object.spec.tags)", true],
  ["object.spec.tags.exists_one(t, t != 'b')", false],
  ["object.spec.tags.map(t, t != 'b', t + '!') == ['a!', 'c!']", true],
  ['[1, 2, 3].all(x, x > 0 || 1 / 0 > 0)', true],
  ['[0, 1].exists(x, 1 / x == 1)', true],
  ['has(object.spec.datacenter)', true],
  ['!has(object.spec.missing) || object.spec.missing == 1', true],
  ['object.spec.nothing == null', true],
  ["object.spec.map.exists(k, object.spec.map[k] == 'v2')", true],
  ['object.spec.map.size() == 2', true],
  ['object.spec.?missing.orValue(5) == 5', true],
  ["object.metadata.?annotations['example.com/a'].orValue('') == 'b'", true],
  ["object.spec.ports.filter(p, p.port > 100)[0].name == 'https'", true],
  ['object.spec.missing == 1 && !object.spec.enabled', false],
  ["type('a') == string", true],
])('%s has the result of the API server', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test.each([
  ['1 / 0 == 0', 'division by zero'],
  ['1 % 0 == 0', 'modulus by zero'],
  ["object.spec.tags[3] == 'd'", 'index out of bounds: 3'],
  ['object.spec.missing == 1', 'no such key: missing'],
  ["object.spec.map['zzz'] == 'x'", 'no such key: zzz'],
  ['object.spec.tags.all(t, t / 2 == 1)', 'no such overload'],
  ['object.spec.enabled && object.spec.missing == 1', 'no such key: missing'],
])('%s fails with the message of the API server', (expression, message) => {
  expect(() => evaluate(expression)).toThrow(new CelError(message));
});

test.each(['object.', 'nosuch == 1', 'object.nosuch()', "1 == 'a'", "object.spec.x.matches('a', 'b')"])(
  '%s does not compile',
  (expression) => {
    expect(() => compileCel(expression, ['object'])).toThrow(CelError);
  },
);

test('a pattern with exponential backtracking is evaluated', () => {
  expect(evaluate("text.matches('^(a+)+$')", { text: `${'a'.repeat(40)}!` })).toBe(false);
  expect(evaluate("matches(text, '^(a+)+$')", { text: `${'a'.repeat(40)}!` })).toBe(false);
});

test('a pattern that is not RE2 is an error', () => {
  expect(() => evaluate("'a'.matches('(?=a)')")).toThrow(CelError);
});

test('the keys constructor and __proto__ are plain data', () => {
  const odd = parseJson('{ "constructor": "a", "__proto__": { "x": 1 } }');
  expect(evaluate("odd.constructor == 'a' && odd['__proto__'].x == 1", { odd })).toBe(true);
  expect(evaluate('has(odd.toString)', { odd })).toBe(false);
});

test('an integer beyond 64 bits is a double', () => {
  expect(evaluate('type(x) == double', { x: 2n ** 63n })).toBe(true);
  expect(evaluate('type(x) == int', { x: 2n ** 63n - 1n })).toBe(true);
});

test('an expression with excessive nesting is rejected at compile time', () => {
  expect(() => compileCel(`${'('.repeat(500)}1${')'.repeat(500)}`, [])).toThrow(CelError);
});

test.each([
  ['object.x.isSorted()', undefined],
  ['object.?x.orValue(1) == 1', undefined],
  ["cidr('10.0.0.0/8').containsIP('10.0.0.1')", 31],
  ['format.uuid().validate(object.x).hasValue()', 32],
  ['object.x.all(k, v, k != v)', 33],
  ["semver('1.2.3').major() == 1", 34],
  ["cidr('10.0.0.0/8').containsCIDR('10.0.0.0/9')", 34],
  ['object.x.sortBy(x, x) == object.x.reverse()', 35],
  ['object.x.orValue(1) == 1', 37],
  ["object.x.indexOf('a', 3) == 3", 37],
  ["object.x.indexOf('a') == 3", 32],
  ['object.?x.optMap(x, quantity(x)).hasValue()', 37],
  ['object.?x.optMap(x, object.?y).hasValue()', 37],
  ['object.?x.optMap(x, x + 1).hasValue()', undefined],
  ["'%d'.format([object.x]) == '%.2e'.format([1.5])", 37],
  ["variables.total.add(quantity('1')).isInteger()", 37],
  ["quantity('1').sub(1).add(1).isInteger()", undefined],
  ["[quantity('1')][0].add(1).isInteger()", 37],
  ["dyn(quantity('1')).add(1).isInteger()", 37],
  ["(object.x ? quantity('1') : quantity('2')).add(1).isInteger()", 37],
])('%s is answered as here from Kubernetes 1.%s', (expression, minor) => {
  expect(compileCel(expression, ['object', 'variables']).needs?.minor).toBe(minor);
});

test.each([
  ["'%s %s'.format([1, [1, 'b']]) == ''", undefined],
  ["'%s'.format([dyn([1, 'a'])]) == ''", 31],
  ["'%s'.format([1] + ['a', 1]) == ''", 31],
])('%s, where literals must not mix types, is accepted from Kubernetes 1.%s', (expression, minor) => {
  expect(compileCel(expression, [], { uniformLiterals: true }).needs?.minor).toBe(minor);
});

test('a variable of optMap keeps its type, also beside a value of any type', () => {
  expect(() =>
    compileCel('optional.of(1).optMap(v, (true ? object : v) in v.getQuery())', ['object']),
  ).toThrow("found no matching overload for 'getQuery' applied to 'int.()'");
});
