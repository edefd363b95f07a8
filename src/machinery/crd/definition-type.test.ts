import { expect, test } from 'vitest';

import type { JsonObject, JsonValue } from '../../json/json.ts';
import { type ApiObject } from '../api-object.ts';
import { readDefinition } from './definition.ts';
import { definitionType } from './definition-type.ts';
import { definition, established, NAMES, VERSION } from '../../../test/support/sandbox/crd.ts';

const { strategy: definitionStrategy } = definitionType;
const V2 = { ...VERSION, name: 'v2' };

const created = (spec: Readonly<Record<string, JsonValue>> = {}) =>
  definitionStrategy.prepareForCreate(definition(spec));

/** The problems that a client sees when it creates the definition. */
const problems = (crd: ApiObject) =>
  definitionStrategy.validate(crd).map(({ field, message }) => `${field}: ${message}`);

const problemsOf = (spec: Readonly<Record<string, JsonValue>>) => problems(created(spec));
const problemsOfVersion = (version: JsonObject) => problemsOf({ versions: [{ ...VERSION, ...version }] });

const problemsOfUpdate = (spec: Readonly<Record<string, JsonValue>>, old: ApiObject) => {
  const changed = { ...old, spec: { ...(old.spec as JsonObject), ...spec } };
  return definitionStrategy
    .validate(definitionStrategy.prepareForUpdate(changed, old), old)
    .map(({ field, message }) => `${field}: ${message}`);
};

test('a schema loses unknown keywords and empty values without meaning, at every depth', () => {
  const schema = {
    type: 'object',
    $comment: 'hello',
    description: '',
    nullable: false,
    required: [],
    format: null,
    properties: { extra: { type: 'array', const: 1, items: { type: 'string', kind: 'x' } } },
    additionalProperties: { type: 'string', extra: true, minimum: 0, default: '' },
    allOf: [{ extra: true, required: ['a'] }],
    anyOf: [],
    'x-kubernetes-preserve-unknown-fields': false,
  };
  const { spec } = created({ versions: [{ ...VERSION, schema: { openAPIV3Schema: schema } }] });
  expect(readDefinition({ ...definition(), spec: spec ?? null }).versions[0]?.schema).toEqual({
    type: 'object',
    properties: { extra: { type: 'array', items: { type: 'string' } } },
    additionalProperties: { type: 'string', minimum: 0, default: '' },
    allOf: [{ required: ['a'] }],
    'x-kubernetes-preserve-unknown-fields': false,
  });
});

const LABEL =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an " +
  "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

test('a definition with a kind that is not a DNS label is rejected', () => {
  expect(problemsOf({ names: { ...NAMES, kind: 'Ser_ver' } })).toEqual([
    `spec.names.kind: Invalid value: "Ser_ver": may have mixed case, but should otherwise match: ${LABEL}`,
  ]);
});

test.each<[string, JsonObject, string[]]>([
  ['no schema', { schema: {} }, ['spec.versions[0].schema.openAPIV3Schema: Required value']],
  [
    'selectable fields that are missing or not scalar',
    {
      selectableFields: [{ jsonPath: '.spec.size' }, { jsonPath: '.spec' }, { jsonPath: '.spec.color' }],
    },
    [
      'spec.selectableFields[0].jsonPath: Invalid value: ".spec.size": is an invalid path: does not refer to a valid field',
      'spec.selectableFields[1].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. ' +
        'Enum string fields and strings with formats are allowed.',
    ],
  ],
])('a version with %s is rejected', (_what, version, expected) => {
  expect(problemsOfVersion(version)).toEqual(expected);
});

test('a problem in a part that differs between versions names the version', () => {
  const column = { name: 'Color', type: 'text', jsonPath: '.spec.color' };
  const versions = [VERSION, { ...V2, storage: false, additionalPrinterColumns: [column] }];
  expect(problemsOf({ versions })).toEqual([
    'spec.versions[1].additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
  ]);
});

test('scope and kind may change until the definition is established; group and plural never may', () => {
  const names = { ...NAMES, kind: 'Machine', listKind: 'MachineList' };
  expect(problemsOfUpdate({ scope: 'Cluster', names }, definition())).toEqual([]);
  expect(problemsOfUpdate({ scope: 'Cluster', names }, established())).toEqual([
    'spec.scope: Invalid value: "Cluster": field is immutable',
    'spec.names.kind: Invalid value: "Machine": field is immutable',
  ]);
  const moved = { group: 'other.example.com', names: { ...NAMES, plural: 'machines' } };
  expect(problemsOfUpdate(moved, definition())).toEqual([
    'spec.group: Invalid value: "other.example.com": field is immutable',
    'spec.names.plural: Invalid value: "machines": field is immutable',
  ]);
});
