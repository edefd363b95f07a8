import { expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import { compileCel } from '../cel.ts';
import { failureOf } from '../../../test/support/cel/evaluate.ts';

const schema: JsonObject = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        capacity: { type: 'integer' },
        units: { type: 'integer', format: 'int64' },
        ratio: { type: 'number' },
        ratios: { type: 'array', items: { type: 'number' } },
        weights: { type: 'object', additionalProperties: { type: 'number' } },
        name: { type: 'string' },
        at: { type: 'string', format: 'date-time' },
        enabled: { type: 'boolean' },
        maybe: { type: 'string', nullable: true },
        port: { 'x-kubernetes-int-or-string': true },
        tags: { type: 'array', items: { type: 'string' } },
        ports: {
          type: 'array',
          items: { type: 'object', properties: { port: { type: 'integer' }, share: { type: 'number' } } },
        },
        labels: { type: 'object', additionalProperties: { type: 'string' } },
        anything: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        open: {
          type: 'object',
          'x-kubernetes-preserve-unknown-fields': true,
          properties: { known: { type: 'integer' } },
        },
        template: {
          type: 'object',
          'x-kubernetes-embedded-resource': true,
          'x-kubernetes-preserve-unknown-fields': true,
        },
        'a-b': { type: 'integer' },
        'a.b/c': { type: 'integer' },
        a__b: { type: 'integer' },
        namespace: { type: 'string' },
        in: { type: 'string' },
      },
    },
  },
};

const compile = (expression: string) => compileCel(expression, { object: { schema }, oldObject: { schema } });
const typeOf = (expression: string) => compile(expression).type;

function problemOf(expression: string): string {
  try {
    compile(expression);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error(`${expression} compiles`);
}

test.each([
  ['object.spec.units', 'int'],
  ['object.spec.ratio', 'double'],
  ['object.spec.at', 'string'],
  ['object.spec.enabled', 'bool'],
  ['object.spec.port', 'dyn'],
  ['object.spec.maybe', 'dyn'],
  ['object.spec.tags', 'list(string)'],
  ['object.spec.ports[0].port', 'int'],
  ['object.spec.ports.map(p, p.port)', 'list(int)'],
  ["object.spec.labels['a']", 'string'],
  ['object.spec.anything.nested', 'dyn'],
  ['object.spec.open.known', 'int'],
  ['object.spec.open.other', 'dyn'],
  ['object.spec.?units', 'optional_type(int)'],
  ["object.spec['a-b']", 'int'],
  ['object.spec.a__dash__b', 'int'],
  ['object.spec.a__dot__b__slash__c', 'int'],
  ['object.spec.a__underscores__b', 'int'],
  ['object.spec.__namespace__', 'string'],
  ['object.spec.__in__', 'string'],
  ['object.apiVersion + object.kind', 'string'],
  ['object.metadata.namespace', 'string'],
  ['object.metadata.labels', 'map(string, string)'],
  ['object.metadata.ownerReferences[0].controller', 'bool'],
  ['object.metadata.generation', 'int'],
  ['object.metadata.finalizers', 'list(string)'],
  ['object.spec.template.metadata.name', 'string'],
  ['object.spec.template.spec', 'dyn'],
  ['object == oldObject && oldObject == null', 'bool'],
  ["'units' in object.spec && size(object.spec) > 0 && object.spec.all(k, k != '')", 'bool'],
])('%s is of type %s', (expression, type) => {
  expect(typeOf(expression)).toBe(type);
});

test.each([
  ['object.spec.capacty > 1', "undefined field 'capacty' in spec: did you mean 'capacity'?"],
  ['has(object.spec.Units)', "undefined field 'Units' in spec: did you mean 'units'?"],
  ['object.spec.?unit', "undefined field 'unit' in spec: did you mean 'units'?"],
  ["object.spec['a-c']", "undefined field 'a-c' in spec: did you mean 'a-b'?"],
  ['object.spec.xyzzy', "undefined field 'xyzzy' in spec"],
  ['object.spec.ports.all(p, p.prot > 0)', "undefined field 'prot' in spec.ports[]: did you mean 'port'?"],
  ['object.metadata.label', "undefined field 'label' in metadata: did you mean 'labels'?"],
  ['object.specs', "undefined field 'specs' in the object: did you mean 'spec'?"],
  ["object.spec.units + 'x'", "found no matching overload for '_+_' applied to '(int, string)'"],
  ['object.spec.name == 1', "found no matching overload for '_==_' applied to '(string, int)'"],
  ['object.spec.units.size()', "found no matching overload for 'size' applied to 'int.()'"],
  ['object.spec.tags.all(t, t > 1)', "found no matching overload for '_>_' applied to '(string, int)'"],
  ['object.spec.name.first', "type 'string' does not support field selection"],
])('%s: %s', (expression, problem) => {
  expect(problemOf(expression)).toBe(problem);
});

test('fields are found by their property names, in the escaping of expressions too', () => {
  const object = { spec: { 'a-b': 1, 'a.b/c': 2, a__b: 3, namespace: 'n', in: 'i' } };
  expect(compile('object.spec.a__dash__b + object.spec.a__dot__b__slash__c').evaluate({ object })).toBe(3n);
  expect(compile("object.spec['a-b'] + object.spec.a__underscores__b").evaluate({ object })).toBe(4n);
  expect(
    compile('object.spec.namespace + object.spec.__namespace__ + object.spec.__in__').evaluate({ object }),
  ).toBe('nni');
  expect(compile('has(object.spec.a__dash__b) && !has(object.spec.units)').evaluate({ object })).toBe(true);
});

test('a whole number where the schema says number is a double', () => {
  const object = { spec: { ratio: 3, ratios: [1, 2.5], weights: { a: 2 }, ports: [{ share: 1 }] } };
  expect(compile('object.spec.ratio * 1.5').evaluate({ object })).toBe(4.5);
  expect(compile('object.spec.ratios.sum() + object.spec.ratios[0] * 1.5').evaluate({ object })).toBe(5);
  expect(compile("object.spec.weights['a'] * 0.5 + object.spec.weights.a * 1.0").evaluate({ object })).toBe(
    3,
  );
  expect(compile('object.spec.ports.map(p, p.share * 0.5)').evaluate({ object })).toEqual([0.5]);
  expect(compile('object.spec.?ratio.orValue(1.0) * 0.5').evaluate({ object })).toBe(1.5);
});

test('without a schema types are unknown, and the mistake appears at run time', () => {
  expect(failureOf('object.spec.capacty > 1', { object: { spec: {} } })).toBe('no such key: capacty');
});

test('a schema without information about an object accepts every expression', () => {
  const anything = (root: JsonObject) => compileCel('object.a.b.c', { object: { schema: root } }).type;
  expect(anything({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true })).toBe('dyn');
  expect(anything({})).toBe('dyn');
});
