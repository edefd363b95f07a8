import { expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import type { Schema } from './schema.ts';
import { structuralProblems } from './structural.ts';

/** The problems of a schema at `$.properties[spec].properties[a]`. */
function saidOf(a: JsonObject, more: JsonObject = {}): readonly string[] {
  const schema = { type: 'object', properties: { spec: { type: 'object', properties: { a }, ...more } } };
  return said(schema).map((text) => text.replaceAll('$.properties[spec]', '$'));
}

// The input may violate the Schema type; the test checks how that is reported.
const said = (schema: JsonObject) =>
  structuralProblems(schema as Schema, '$').map(({ field, message }) => `${field}: ${message}`);

const A = '$.properties[a]';

// The answers of kube-apiserver.
test.each<[JsonObject, readonly string[]]>([
  [
    { type: 'x' },
    [
      `${A}.type: Unsupported value: "x": supported values: "array", "boolean", "integer", "number", "object", "string"`,
    ],
  ],
  [
    { type: 'array', items: {} },
    [`${A}.items.type: Required value: must not be empty for specified array items`],
  ],
  [
    { type: 'object', properties: { b: { type: 'string' } }, additionalProperties: false },
    [`${A}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`],
  ],
  [{ 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] }, []],
  [
    { type: 'string', anyOf: [{ type: 'integer' }] },
    [`${A}.anyOf[0].type: Forbidden: must be empty to be structural`],
  ],
  [
    { type: 'object', 'x-kubernetes-embedded-resource': true },
    [
      `${A}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields`,
    ],
  ],
  [
    { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object' } },
    [
      `${A}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`,
    ],
  ],
  [
    { type: 'array', 'x-kubernetes-list-type': 'map', items: { type: 'object' } },
    [`${A}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`],
  ],
  [
    {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['k'],
      items: { type: 'object', properties: { k: { type: 'string' } } },
    },
    [
      `${A}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property`,
    ],
  ],
  [
    { type: 'object', default: { x: 1 } },
    [`${A}.default: Invalid value: {"x":1}: must not have unknown fields`],
  ],
  [
    { type: 'object', default: {}, required: ['r'], properties: { r: { type: 'string' } } },
    [`${A}.default.r: Required value`],
  ],
])('%j has the problems that the API server reports', (schema, expected) => {
  expect(saidOf(schema)).toEqual(expected);
});

test('a branch at the root may only name properties of the schema', () => {
  const a = { type: 'array', items: { type: 'string' } };
  const anyOf = [{ properties: { b: { minLength: 1 }, a: { items: { items: { maxLength: 3 } } } } }];
  expect(said({ type: 'object', properties: { a }, anyOf })).toEqual([
    `${A}.items.items: Required value: because it is defined in $.anyOf[0].properties[a].items.items`,
    '$.properties[b]: Required value: because it is defined in $.anyOf[0].properties[b]',
  ]);
});

const ruleProblems = (rule: JsonObject, a: JsonObject = { type: 'integer' }) =>
  saidOf({ ...a, 'x-kubernetes-validations': [rule] }).map((text) =>
    text
      .replaceAll(`${A}.x-kubernetes-validations[0]`, '')
      .replace(/Invalid value: \{.*?\}/, 'Invalid value: …'),
  );

test.each<[JsonObject, readonly string[]]>([
  [{ rule: 'self > 1' }, []],
  [{ rule: ' ' }, ['.rule: Required value: rule is not specified']],
  [
    { rule: 'self > 1', message: ' ' },
    ['.message: Invalid value: " ": message must be non-empty if specified'],
  ],
  [
    { rule: 'self >\n1' },
    ['.message: Required value: message must be specified if rule contains line breaks'],
  ],
  [
    { rule: 'self > 1', reason: 'Odd' },
    [
      '.reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
    ],
  ],
  [
    { rule: 'self > 1', fieldPath: '.b' },
    ['.fieldPath: Invalid value: ".b": fieldPath must be a valid path'],
  ],
  [
    { rule: 'nosuch > 1' },
    [".rule: Invalid value: …: compilation failed: undeclared reference to 'nosuch' (in container '')"],
  ],
  [{ rule: '1 + 1' }, ['.rule: Invalid value: …: cel expression must evaluate to a bool']],
  [
    { rule: 'self > 1', messageExpression: '1' },
    ['.messageExpression: Invalid value: …: messageExpression must evaluate to a string'],
  ],
  [
    { rule: 'self > 1', optionalOldSelf: true },
    ['.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule'],
  ],
])('the rule %j has the problems that the API server reports', (rule, expected) => {
  expect(ruleProblems(rule)).toEqual(expected);
});
