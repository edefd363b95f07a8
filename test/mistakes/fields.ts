/** Fields that do not exist. */
import { immutable, notFound, unique, wrong, type Mistake } from './mistake.ts';

const merge = (mistake: string, expression: string, says: string): Mistake =>
  wrong(
    mistake,
    `expression: '${expression}'`,
    'mutations:\n  - name: one\n    LINE',
    `spec.mutations[0].expression: ${says}`,
  );

const REFERENCE = 'target: { apiGroup: infra.example.com, resource: datacenters }';

export const FIELDS: readonly Mistake[] = [
  wrong(
    'a reference through a misspelt field',
    'path: spec.datacentre',
    `validate:\n  references:\n    - name: datacenter\n      LINE\n      ${REFERENCE}`,
    'spec.validate.references[0].path: field datacentre not found in spec: did you mean datacenter?',
  ),
  wrong(
    'the namespace of a target in a misspelt field',
    'namespacePath: spec.tennant',
    'validate:\n  references:\n    - name: rack\n      path: spec.settings.rack\n      LINE\n      target: { apiGroup: infra.example.com, resource: racks }',
    'spec.validate.references[0].namespacePath: field tennant not found in spec: did you mean tenant?',
  ),
  unique(
    'a unique value in a misspelt field of a list',
    'spec.ports[*].numbr',
    'field numbr not found in spec.ports[]: did you mean number?',
  ),
  immutable('an immutable field that is misspelt', 'spec.tennant', notFound('tennant', 'spec', 'tenant')),
  immutable('another case', 'spec.Tenant', notFound('Tenant', 'spec', 'tenant')),
  immutable(
    '`spec.` is missing',
    'tenant',
    'field tenant not found in the object: did you mean spec.tenant?',
  ),
  immutable('a field one level too high', 'spec.email', notFound('email', 'spec', 'spec.owner.email')),
  immutable('a field of a text', 'spec.tenant.name', 'spec.tenant is a string and does not have fields'),
  unique(
    'a misspelt field of metadata',
    'metadata.lables.rack',
    'field lables not found in metadata: did you mean labels?',
  ),
  unique(
    'elements of a list without `[*]`',
    'spec.ports.number',
    'spec.ports is a list: write spec.ports[*].number for its elements',
  ),
  unique('`[*]` after an object', 'spec.owner[*].name', 'spec.owner is an object, not a list'),
  wrong(
    'a default for a misspelt field',
    '- path: spec.replica',
    'defaults:\n  LINE\n    value: 1',
    'spec.defaults[0].path: field replica not found in spec: did you mean replicas?',
  ),
  wrong(
    'a default with a misspelt field inside',
    'value: { nmae: ada }',
    'defaults:\n  - path: spec.owner\n    LINE',
    'spec.defaults[0].value: field nmae not found in spec.owner: did you mean name?',
  ),
  wrong(
    'a default of another type',
    'value: "3"',
    'defaults:\n  - path: spec.replicas\n    LINE',
    'spec.defaults[0].value: spec.replicas is an integer, so "3" does not fit',
  ),
  merge(
    'a mutation of a misspelt field',
    '{"spec": {"tennant": "a"}}',
    notFound('tennant', 'spec', 'tenant'),
  ),
  merge(
    'a mutation to another type',
    '{"spec": {"public": "yes"}}',
    'spec.public is true or false, so "yes" does not fit',
  ),
  wrong(
    'a JSON patch of a misspelt field',
    `expression: '[{"op": "add", "path": "/spec/tennant", "value": "a"}]'`,
    'mutations:\n  - name: one\n    type: JSONPatch\n    LINE',
    'spec.mutations[0].expression: field tennant not found in spec: did you mean tenant?',
  ),
  wrong(
    'a violation at a misspelt field',
    'fieldPath: spec.replcas',
    'validate:\n  rules:\n    - expression: object.spec.replicas > 0\n      LINE',
    'spec.validate.rules[0].fieldPath: field replcas not found in spec: did you mean replicas?',
  ),
  wrong(
    'a schema for a misspelt field',
    'tennant: { minLength: 3 }',
    'validate:\n  schema:\n    properties:\n      spec:\n        properties:\n          LINE',
    'spec.validate.schema.properties.spec.properties.tennant: field tennant not found in spec: did you mean tenant?',
  ),
  wrong(
    'a schema that requires a misspelt field, which would refuse every object',
    'required: [tennant]',
    'validate:\n  schema:\n    properties:\n      spec:\n        LINE',
    'spec.validate.schema.properties.spec.required: field tennant not found in spec: did you mean tenant?',
  ),
  immutable('a path as in JSONPath', '$.spec.tenant', 'a path starts with a field such as spec, without $'),
  immutable(
    'a path as in JSON Pointer',
    '/spec/tenant',
    'paths have dots, not slashes: write one such as spec.datacenter',
  ),
  immutable(
    'a label with a slash, without brackets',
    'metadata.labels.example.com/rack',
    'at character 28 of "metadata.labels.example.com/rack": expected a dot or a bracket; other characters need brackets: labels["example.com/rack"], but found "/"',
  ),
];
