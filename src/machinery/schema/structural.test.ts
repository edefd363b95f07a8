import { expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import type { Schema } from './schema.ts';
import { structuralProblems } from './structural.ts';

/** The problems of a schema at `$.properties[spec].properties[a]`. It may violate the Schema type. */
function saidOf(a: JsonObject): readonly string[] {
  const schema = { type: 'object', properties: { spec: { type: 'object', properties: { a } } } };
  const problems = structuralProblems(schema as Schema, '$');
  return problems.map(({ field, message }) => `${field}: ${message}`.replaceAll('$.properties[spec]', '$'));
}

const A = '$.properties[a]';

// The answers of kube-apiserver.
test.each<[JsonObject, readonly string[]]>([
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
    { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object' } },
    [
      `${A}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set`,
    ],
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
    { type: 'object', default: {}, required: ['r'], properties: { r: { type: 'string' } } },
    [`${A}.default.r: Required value`],
  ],
])('%j has the problems that the API server reports', (schema, expected) => {
  expect(saidOf(schema)).toEqual(expected);
});

const ruleProblems = (rule: JsonObject, a: JsonObject = { type: 'integer' }) =>
  saidOf({ ...a, 'x-kubernetes-validations': [rule] }).map((text) =>
    text
      .replaceAll(`${A}.x-kubernetes-validations[0]`, '')
      .replace(/Invalid value: \{.*?\}/, 'Invalid value: …'),
  );

test.each<[JsonObject, readonly string[]]>([
  [{ rule: 'self > 1' }, []],
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
