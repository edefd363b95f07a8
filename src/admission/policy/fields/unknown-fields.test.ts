/** Paths and values of policies against the schemas of the governed kinds (issue 19). test/mistakes has the messages. */
import { expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { JsonObject } from '../../../json/json.ts';
import { createReport, type Problem } from '../problem.ts';
import { reportUnknownFields } from './unknown-fields.ts';

const PRESERVE = { 'x-kubernetes-preserve-unknown-fields': true };
const objectOf = (properties: JsonObject): JsonObject => ({ type: 'object', properties });
const schemaOf = (spec: JsonObject): JsonObject => objectOf({ spec: objectOf(spec) });
const SCHEMA = schemaOf({
  tenant: { type: 'string' },
  size: { 'x-kubernetes-int-or-string': true },
  maybe: { type: 'integer', nullable: true },
  ports: { type: 'array', items: objectOf({ number: { type: 'integer' } }) },
  settings: { type: 'object', additionalProperties: { type: 'string' } },
  anything: { type: 'object', additionalProperties: true },
  extra: { type: 'object', ...PRESERVE, properties: { known: { type: 'string' } } },
  template: { type: 'object', 'x-kubernetes-embedded-resource': true, ...PRESERVE },
  'a-b': { type: 'string' },
});

function problemsOf(spec: Partial<AdmissionPolicySpec>, schemas: readonly JsonObject[] = [SCHEMA]) {
  const problems: Problem[] = [];
  const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
  reportUnknownFields({ match, ...spec }, schemas, createReport(problems));
  return problems.map(({ message }) => message);
}
const immutable = (...paths: readonly string[]) => ({ validate: { immutable: paths } });
const merge = (expression: string) => ({ mutations: [{ name: 'a', expression }] });
const patch = (expression: string) => ({
  mutations: [{ name: 'a', type: 'JSONPatch' as const, expression }],
});

test.each([
  'spec.tenant',
  'spec.ports[*].number',
  'spec.settings["example.com/any"]',
  'spec.anything.at.any.depth',
  'spec.extra.known',
  'spec.extra.unknown.deep[3].x',
  'spec.template.metadata.labels.a',
  'spec["a-b"]',
  'metadata.labels["example.com/rack"]',
  'apiVersion',
])('%s exists', (path) => {
  expect(problemsOf(immutable(path))).toEqual([]);
});

test.each([
  ['spec.extra.known.x', 'spec.extra.known is a string and does not have fields'],
  ['spec.settings.any.x', 'spec.settings.any is a string and does not have fields'],
  ['spec.template.metadata.lables.a', 'field lables not found in metadata: did you mean labels?'],
  ['spec.settings[*]', 'spec.settings is a map, not a list'],
  ['status.phase', 'field status not found in the object'],
])('%s does not exist', (path, message) => {
  expect(problemsOf(immutable(path))).toEqual([message]);
});

test('a field has to exist in one of the kinds and versions only', () => {
  const older = schemaOf({ owner: { type: 'string' } });
  expect(problemsOf(immutable('spec.tenant', 'spec.owner'), [SCHEMA, older])).toEqual([]);
  expect(problemsOf(immutable('spec.ownr'), [SCHEMA, older])).toHaveLength(1);
  expect(problemsOf(immutable('spec.nothing'), [])).toEqual([]);
});

test.each([
  merge('{"spec": {"tenant": object.metadata.name}}'),
  merge('{"spec": {"tenant": null, "size": 3, "maybe": 1}}'),
  merge('{"spec": {"size": "3Gi", "settings": {"any": "a"}}}'),
  merge('{"metadata": {"labels": {"a": "b"}}}'),
  merge('{"spec": {object.metadata.name: 1}}'),
  merge('has(object.spec.tenant) ? {} : {"spec": {"tenant": "a"}}'),
  merge('variables.change'),
  patch('[{"op": "add", "path": "/spec/ports/-", "value": {"number": 80}}]'),
  patch('[{"op": "remove", "path": "/spec/ports/0"}]'),
  patch('[{"op": "add", "path": "/metadata/labels/example.com~1rack", "value": "a"}]'),
  patch('[{"op": "add", "path": "/metadata/labels/1", "value": "a"}]'),
  patch('[{"op": "add", "path": "/spec/" + variables.field, "value": "a"}]'),
  { defaults: [{ path: 'spec.ports', value: [{ number: 80 }] }] },
  { defaults: [{ path: 'spec.ports[*].number', expression: 'size(object.spec.ports)' }] },
])('%j fits the schema', (spec) => {
  expect(problemsOf(spec)).toEqual([]);
});

test.each([
  [
    merge('has(object.spec.tenant) ? {} : {"spec": {"tennant": "a"}}'),
    'field tennant not found in spec: did you mean tenant?',
  ],
  [
    merge('{"spec": {"ports": [{"nubmer": 1}]}}'),
    'field nubmer not found in spec.ports[]: did you mean number?',
  ],
  [merge('{"spec": {"ports": {"number": 1}}}'), 'spec.ports is a list, so an object does not fit'],
  [
    patch('[{"op": "add", "path": "/spec/ports/-", "value": {"number": "80"}}]'),
    'spec.ports[*].number is an integer, so "80" does not fit',
  ],
  [
    { defaults: [{ path: 'spec.settings', value: { a: 1 } }] },
    'spec.settings.a is a string, so 1 does not fit',
  ],
])('%j does not', (spec, message) => {
  expect(problemsOf(spec)).toEqual([message]);
});
