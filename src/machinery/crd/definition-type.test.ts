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

test.each<[string, Readonly<Record<string, JsonValue>>, string[]]>([
  [
    'a kind that is not a DNS label',
    { names: { ...NAMES, kind: 'Ser_ver' } },
    [`spec.names.kind: Invalid value: "Ser_ver": may have mixed case, but should otherwise match: ${LABEL}`],
  ],
  [
    'a conversion webhook without an address',
    { conversion: { strategy: 'Webhook' } },
    [
      'spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook',
      'spec.conversion.conversionReviewVersions: Required value',
    ],
  ],
  [
    'an unused conversion webhook',
    {
      conversion: {
        strategy: 'None',
        webhook: { clientConfig: { url: 'https://example.com' }, conversionReviewVersions: ['v1'] },
      },
    },
    [
      'spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook',
      'spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook',
    ],
  ],
])('a definition with %s is rejected', (_what, spec, expected) => {
  expect(problemsOf(spec)).toEqual(expected);
});

test.each<[string, JsonObject, string[]]>([
  ['no schema', { schema: {} }, ['spec.versions[0].schema.openAPIV3Schema: Required value']],
  [
    'a name that is not a DNS label',
    { name: 'V1' },
    [`spec.versions[0].name: Invalid value: "V1": ${LABEL}`, `spec.version: Invalid value: "V1": ${LABEL}`],
  ],
  [
    'a warning without deprecation',
    { deprecationWarning: 'go away' },
    [
      'spec.versions[0].deprecationWarning: Invalid value: "go away": can only be set for deprecated versions',
    ],
  ],
  [
    'incomplete columns',
    { additionalPrinterColumns: [{ name: '', type: 'text', format: 'int', jsonPath: 'spec.x' }] },
    [
      'spec.additionalPrinterColumns[0].name: Required value',
      'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string',
      'spec.additionalPrinterColumns[0].format: Invalid value: "int": must be one of byte,date,date-time,double,float,int32,int64,password',
      'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec.x": must be a simple json path starting with .',
    ],
  ],
  [
    'a scale with paths outside spec and status',
    {
      subresources: {
        scale: {
          specReplicasPath: 'x',
          statusReplicasPath: '.spec.x',
          labelSelectorPath: '.metadata.labels',
        },
      },
    },
    [
      'spec.subresources.scale.specReplicasPath: Invalid value: "x": must be a simple json path starting with .',
      'spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.x": should be a json path under .status',
      'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.labels": should be a json path under either .spec or .status',
    ],
  ],
  [
    'selectable fields that are missing, not scalar or duplicate',
    {
      selectableFields: [
        { jsonPath: '.spec.size' },
        { jsonPath: '.spec' },
        { jsonPath: '.spec.color' },
        { jsonPath: '.spec.color' },
      ],
    },
    [
      'spec.selectableFields[0].jsonPath: Invalid value: ".spec.size": is an invalid path: does not refer to a valid field',
      'spec.selectableFields[1].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. ' +
        'Enum string fields and strings with formats are allowed.',
      'spec.selectableFields[3].jsonPath: Duplicate value: ".spec.color"',
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
