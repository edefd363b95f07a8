import { expect, test } from 'vitest';
import { celToJson, compileCel, MUTATION_MESSAGES } from '../../cel.ts';

const compile = (text: string) => compileCel(text, ['object'], { messages: MUTATION_MESSAGES });
const json = (text: string, object = {}) => celToJson(compile(text).evaluate({ object }));

test.each([
  ['Object{}', {}],
  ['Object{spec: Object.spec{replicas: 2}}', { spec: { replicas: 2 } }],
  ["Object{metadata: Object.metadata{labels: {'a': 'b'}}}", { metadata: { labels: { a: 'b' } } }],
  ['Object{?spec: optional.none(), kind: "x"}', { kind: 'x' }],
  ['Object{?kind: optional.of("x")}', { kind: 'x' }],
  ['Object{a__dot__b__dash__c__slash__d__underscores__e: 1}', { 'a.b-c/d__e': 1 }],
  ['[1, 2].map(size, Object.spec.items{size: size})', [{ size: 1 }, { size: 2 }]],
  [
    "[JSONPatch{op: 'add', path: '/a', value: {'b': [true]}}]",
    [{ op: 'add', path: '/a', value: { b: [true] } }],
  ],
])('%s', (text, value) => {
  expect(json(text)).toEqual(value);
});

test.each([
  ['Nothing{}', "undeclared reference to 'Nothing' (in container '')"],
  ['Objects.spec{}', "undeclared reference to 'Objects.spec' (in container '')"],
  ['JSONPatch{op: 1}', "expected type of field 'op' is 'string' but provided type is 'int'"],
  ["JSONPatch{nope: 'x'}", "expected type of field 'nope' is '' but provided type is 'string'"],
  [
    "JSONPatch{?op: 'x'}",
    "expected type of field 'op' is 'optional_type(string)' but provided type is 'string'",
  ],
  ['Object{a: 1', 'Syntax error'],
  ['object.x()["y"]{a: 1}', 'Syntax error'],
])('%s does not compile', (text, message) => {
  expect(() => compile(text)).toThrow(message);
});

test('the fields of a message may read variables', () => {
  const text = 'Object{spec: Object.spec{replicas: object.spec.replicas + 1}}';
  expect(json(text, { spec: { replicas: 2 } })).toEqual({ spec: { replicas: 3 } });
  expect([...compile(text).names]).toEqual(['object']);
});

test('without a list of messages, no message compiles', () => {
  expect(() => compileCel('Object{}', [])).toThrow("undeclared reference to 'Object' (in container '')");
});
