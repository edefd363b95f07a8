import { isEqual, isJsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import type { Cause } from '../failure.ts';
import { clientConfigProblems, reviewVersionProblems } from '../kinds/webhooks/client-config-problems.ts';
import { kindProblem, label1035Problem, subdomainProblem } from '../name-problems.ts';
import {
  forbiddenValue,
  invalidIf,
  invalidValue,
  requiredAmong,
  requiredValue,
  when,
} from '../schema/causes.ts';
import { childSchema, type Schema } from '../schema/schema.ts';
import { structuralProblems } from '../schema/structural.ts';
import {
  isConditionTrue,
  readDefinition,
  storedVersions,
  type Conversion,
  type Definition,
  type DefinitionColumn,
  type DefinitionNames,
  type DefinitionVersion,
} from './definition.ts';

export function validateDefinition(crd: ApiObject, old?: ApiObject): readonly Cause[] {
  const definition = readDefinition(crd);
  const { names, group, preserveUnknownFields } = definition;
  const { name = '' } = crd.metadata;
  const isMisnamed = old === undefined && name !== `${names.plural}.${group}`;
  return [
    ...when(isMisnamed, invalidValue('metadata.name', name, 'must be spec.names.plural+"."+spec.group')),
    ...specProblems(crd, definition),
    ...(old === undefined ? [] : changeProblems(definition, old)),
    ...storedVersionProblems(crd, definition),
    ...when(
      preserveUnknownFields,
      invalidValue(
        'spec.preserveUnknownFields',
        true,
        'cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead',
      ),
    ),
  ];
}

function specProblems(crd: ApiObject, definition: Definition): readonly Cause[] {
  const { scope, names, versions, conversion } = definition;
  return [
    ...groupProblems(definition.group),
    ...requiredAmong('spec.scope', scope, ['Cluster', 'Namespaced']),
    ...versions.flatMap(({ schema }, index) =>
      when(schema === undefined, requiredValue(`spec.versions[${index}].schema.openAPIV3Schema`)),
    ),
    ...versions.flatMap(({ name }, index) =>
      invalidIf(`spec.versions[${index}].name`, name, label1035Problem(name)),
    ),
    ...versionPartProblems(versions),
    ...versionListProblems(crd, versions),
    ...(['plural', 'singular', 'kind', 'listKind'] as const).flatMap((name) =>
      when(names[name] === '', requiredValue(`spec.names.${name}`)),
    ),
    ...namesProblems(names),
    ...(conversion === undefined ? [] : conversionProblems(conversion)),
  ];
}

function groupProblems(group: string): readonly Cause[] {
  if (group === '') return [requiredValue('spec.group')];
  const plain = group.includes('.') ? undefined : 'should be a domain with at least one dot';
  return invalidIf('spec.group', group, subdomainProblem(group) ?? plain);
}

/** The API server keeps a part that is the same in all versions once, and reports it there: `spec.validation`. */
function versionPartProblems(versions: readonly DefinitionVersion[]): readonly Cause[] {
  const check = <Part>(
    partOf: (version: DefinitionVersion) => Part,
    key: string,
    problems: (part: Part, path: string, owner: DefinitionVersion) => readonly Cause[],
    sharedKey = key,
  ): readonly Cause[] => {
    const [first, ...others] = versions;
    if (first === undefined) return [];
    const part = partOf(first);
    if (others.every((version) => isEqual(partOf(version), part))) {
      return problems(part, `spec.${sharedKey}`, first);
    }
    return versions.flatMap((version, index) =>
      problems(partOf(version), `spec.versions[${index}].${key}`, version),
    );
  };

  return [
    ...check(({ schema }) => schema, 'schema', schemaProblems, 'validation'),
    ...check(({ columns }) => columns, 'additionalPrinterColumns', columnProblems),
    ...check(
      ({ selectableFields }) => selectableFields,
      'selectableFields',
      (paths, path, { schema }) => selectableFieldProblems(paths, schema, path),
    ),
  ];
}

function versionListProblems(crd: ApiObject, versions: readonly DefinitionVersion[]): readonly Cause[] {
  const shown = (isJsonObject(crd.spec) ? crd.spec.versions : undefined) ?? null;
  const invalid = (why: string) => invalidValue('spec.versions', shown, why);
  const names = new Set(versions.map(({ name }) => name));
  const stored = versions.filter(({ storage }) => storage);
  return [
    ...(names.size === versions.length ? [] : [invalid('must contain unique version names')]),
    ...(stored.length === 1 ? [] : [invalid('must have exactly one version marked as storage version')]),
    // The API server's internal type repeats the name of the first version.
    ...versions.slice(0, 1).flatMap(({ name }) => invalidIf('spec.version', name, label1035Problem(name))),
  ];
}

function namesProblems(names: DefinitionNames): readonly Cause[] {
  const field = (name: string) => `spec.names.${name}`;
  const word = (name: string, value: string) =>
    value === '' ? [] : invalidIf(field(name), value, label1035Problem(value));
  const kind = (name: 'kind' | 'listKind') =>
    names[name] === '' ? [] : invalidIf(field(name), names[name], kindProblem(names[name]));
  return [
    ...word('plural', names.plural),
    ...word('singular', names.singular),
    ...kind('kind'),
    ...kind('listKind'),
    ...names.shortNames.flatMap((name, index) => word(`shortNames[${index}]`, name)),
    ...when(
      names.kind !== '' && names.kind === names.listKind,
      invalidValue(field('listKind'), names.listKind, 'kind and listKind may not be the same'),
    ),
    ...names.categories.flatMap((name, index) => word(`categories[${index}]`, name)),
  ];
}

/** Group and plural determine where objects are stored; scope and kind are fixed once objects may exist. */
function changeProblems(definition: Definition, old: ApiObject): readonly Cause[] {
  const before = readDefinition(old);
  const immutable = (field: string, value: string, oldValue: string) =>
    when(value !== oldValue, invalidValue(field, value, 'field is immutable'));
  return [
    ...(isConditionTrue(old, 'Established')
      ? [
          ...immutable('spec.scope', definition.scope, before.scope),
          ...immutable('spec.names.kind', definition.names.kind, before.names.kind),
        ]
      : []),
    ...immutable('spec.group', definition.group, before.group),
    ...immutable('spec.names.plural', definition.names.plural, before.names.plural),
  ];
}

function storedVersionProblems(crd: ApiObject, { versions }: Definition): readonly Cause[] {
  const field = 'status.storedVersions';
  const stored = storedVersions(crd);
  if (stored.length === 0) return [invalidValue(field, stored, 'must have at least one stored version')];
  const missing = versions.filter(({ name, storage }) => storage && !stored.includes(name));
  const isGone = (name: string) => !versions.some((version) => version.name === name);
  const gone = (name: string) =>
    `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a ` +
    `storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`;
  return [
    ...missing.map(({ name }) => invalidValue(field, stored, `must have the storage version ${name}`)),
    ...stored.flatMap((name, index) =>
      when(isGone(name), invalidValue(`${field}[${index}]`, name, gone(name))),
    ),
  ];
}

// The API server reports these paths from its internal type, which has no `webhook` level.
const CLIENT_CONFIG = 'spec.conversion.webhookClientConfig';
const VERSIONS = 'spec.conversion.conversionReviewVersions';

function conversionProblems({ strategy, webhook }: Conversion): readonly Cause[] {
  const { clientConfig, reviewVersions = [] } = webhook ?? {};
  const problems = requiredAmong('spec.conversion.strategy', strategy, ['None', 'Webhook']);
  if (strategy === 'Webhook') {
    return [
      ...problems,
      ...(clientConfig === undefined
        ? [requiredValue(CLIENT_CONFIG, 'required when strategy is set to Webhook')]
        : clientConfigProblems(clientConfig, CLIENT_CONFIG)),
      ...reviewVersionProblems(reviewVersions, VERSIONS),
    ];
  }
  const why = 'should not be set when strategy is not set to Webhook';
  return [
    ...problems,
    ...when(clientConfig !== undefined, forbiddenValue(CLIENT_CONFIG, why)),
    ...when(reviewVersions.length > 0, forbiddenValue(VERSIONS, why)),
  ];
}

/** Each check below covers one part of a version; `path` is where the API server reports that part. */
function schemaProblems(schema: Schema | undefined, path: string): readonly Cause[] {
  if (schema === undefined) return [];
  const field = `${path}.openAPIV3Schema`;
  const why = 'nullable cannot be true at the root';
  return [
    ...when(schema.nullable === true, forbiddenValue(`${field}.nullable`, why)),
    ...structuralProblems(schema, field),
  ];
}

const notSimplePath = (field: string, value: string) =>
  invalidValue(field, value, 'must be a simple json path starting with .');

const COLUMN_TYPES = ['boolean', 'date', 'integer', 'number', 'string'];
const COLUMN_FORMATS = ['byte', 'date', 'date-time', 'double', 'float', 'int32', 'int64', 'password'];

function columnProblems(columns: readonly DefinitionColumn[], path: string): readonly Cause[] {
  const types = `must be one of ${COLUMN_TYPES.join(',')}`;
  return columns.flatMap(({ name, type, format, jsonPath }, index) => {
    const field = (key: string) => `${path}[${index}].${key}`;
    const causes: Cause[] = [];
    if (name === '') causes.push(requiredValue(field('name')));
    if (type === '') causes.push(requiredValue(field('type'), types));
    else if (!COLUMN_TYPES.includes(type)) causes.push(invalidValue(field('type'), type, types));
    if (format !== '' && !COLUMN_FORMATS.includes(format)) {
      causes.push(invalidValue(field('format'), format, `must be one of ${COLUMN_FORMATS.join(',')}`));
    }
    // The API server spells this field as in its internal type.
    if (jsonPath === '') causes.push(requiredValue(field('JSONPath')));
    else if (!jsonPath.startsWith('.')) causes.push(notSimplePath(field('JSONPath'), jsonPath));
    return causes;
  });
}

function selectableFieldProblems(
  paths: readonly string[],
  schema: Schema | undefined,
  path: string,
): readonly Cause[] {
  const notScalar =
    'must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.';
  return paths.flatMap((value, index) => {
    const field = `${path}[${index}].jsonPath`;
    if (value === '') return [requiredValue(field)];
    const found = schemaAt(schema, value);
    if (found === undefined)
      return [invalidValue(field, value, 'is an invalid path: does not refer to a valid field')];
    const isScalar = ['string', 'boolean', 'integer'].includes(found.type ?? '');
    return when(!isScalar, invalidValue(field, value, notScalar));
  });
}

function schemaAt(root: Schema | undefined, path: string): Schema | undefined {
  const [first, ...keys] = path.split('.');
  if (first !== '' || keys.length === 0) return undefined;
  return keys.reduce<Schema | undefined>((schema, key) => schema && childSchema(schema, key), root);
}
