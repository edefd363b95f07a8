import type { ResourceVerb } from '../request.ts';
import { isJsonObject, ownValue, type JsonValue } from '../../json/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import {
  plainStrategy,
  type PrinterColumn,
  type ResourceType,
  type Strategy,
  compareVersions,
} from '../resource-type.ts';
import { ANYTHING } from '../schema/schema.ts';
import {
  acceptedNames,
  isConditionTrue,
  readDefinition,
  storageVersionOf,
  type Definition,
  type DefinitionColumn,
  type DefinitionVersion,
} from './definition.ts';

/** In the order of the API server's discovery. */
const VERBS: readonly ResourceVerb[] = [
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'create',
  'update',
  'watch',
];

/** What discovery shows. Updates stay allowed: they remove the finalizers that a deleted definition waits for. */
const VERBS_WHILE_TERMINATING = VERBS.filter((verb) => !['patch', 'create', 'update'].includes(verb));

const CUSTOM_STRATEGY: Strategy = { ...plainStrategy, countsGenerations: true };

const AGE: PrinterColumn = {
  name: 'Age',
  type: 'date',
  description: 'CreationTimestamp is a timestamp representing the server time when this object was created.',
  value: '.metadata.creationTimestamp',
};

interface CustomTypes {
  readonly served: readonly ResourceType[];
  readonly stored: ResourceType | undefined;
}

const NO_TYPES: CustomTypes = { served: [], stored: undefined };

const known = new WeakMap<ApiObject, CustomTypes>();

/**
 * The types that a definition serves: one for each served version, the preferred version first. Empty before the
 * definition is established.
 */
export const typesOf = (crd: ApiObject): readonly ResourceType[] => customTypesOf(crd).served;

/** The type in which the definition's objects are stored, whether or not that version is served. */
export const storedTypeOf = (crd: ApiObject): ResourceType | undefined => customTypesOf(crd).stored;

function customTypesOf(crd: ApiObject): CustomTypes {
  const remembered = known.get(crd);
  if (remembered !== undefined) return remembered;
  const types = toTypes(crd);
  known.set(crd, types);
  return types;
}

function toTypes(crd: ApiObject): CustomTypes {
  const definition = readDefinition(crd);
  const storageVersion = storageVersionOf(definition);
  if (!isConditionTrue(crd, 'Established') || storageVersion === undefined) return NO_TYPES;

  const types = definition.versions
    .toSorted((left, right) => compareVersions(left.name, right.name))
    .map((version) => ({
      served: version.served,
      type: toType(crd, definition, version, storageVersion),
    }));
  return {
    served: types.filter(({ served }) => served).map(({ type }) => type),
    stored: types.find(({ type }) => type.version === storageVersion)?.type,
  };
}

function toType(
  crd: ApiObject,
  definition: Definition,
  version: DefinitionVersion,
  storageVersion: string,
): ResourceType {
  const { plural, ...names } = acceptedNames(crd);
  return {
    group: definition.group,
    version: version.name,
    resource: plural,
    ...names,
    namespaced: definition.scope === 'Namespaced',
    verbs: isConditionTrue(crd, 'Terminating') ? VERBS_WHILE_TERMINATING : VERBS,
    // Before 1.37, creations were possible again after the cleanup, while another finalizer kept the definition.
    ...(crd.metadata.deletionTimestamp === undefined ? {} : { isTerminating: true }),
    schema: version.schema ?? ANYTHING,
    custom: true,
    columns: version.columns.length === 0 ? [AGE] : version.columns.map(toPrinterColumn),
    hasStatus: version.hasStatus,
    ...(version.scale === undefined ? {} : { scale: version.scale }),
    storageVersion,
    selectableFields: Object.fromEntries(version.selectableFields.map(toSelectableField)),
    strategy: CUSTOM_STRATEGY,
    ...(version.deprecated ? { deprecationWarning: deprecationWarning(definition, version) } : {}),
  };
}

const COLUMN_TYPES = ['string', 'integer', 'number', 'boolean', 'date'] as const;

function toPrinterColumn({
  name,
  type,
  format,
  description,
  priority,
  jsonPath,
}: DefinitionColumn): PrinterColumn {
  return {
    name,
    type: COLUMN_TYPES.find((known) => known === type) ?? 'string',
    ...(format === '' ? {} : { format }),
    // The API server fills in the same description.
    description:
      description === ''
        ? `Custom resource definition column (in JSONPath format): ${jsonPath}`
        : description,
    priority,
    value: jsonPath,
  };
}

function toSelectableField(path: string): readonly [string, (object: ApiObject) => string] {
  const keys = path.split('.').filter((key) => key !== '');
  return [keys.join('.'), (object) => shown(keys.reduce(child, toJson(object)))];
}

const child = (value: JsonValue | undefined, key: string): JsonValue | undefined =>
  isJsonObject(value) ? (ownValue(value, key) as JsonValue | undefined) : undefined; // a field of JSON is JSON

const shown = (value: JsonValue | undefined): string =>
  value === undefined || value === null || typeof value === 'object' ? '' : String(value);

/** Recommends the best served version that is not deprecated, if it ranks above this one. */
function deprecationWarning({ group, names, versions }: Definition, version: DefinitionVersion): string {
  if (version.deprecationWarning !== undefined) return version.deprecationWarning;
  const [better] = versions
    .filter(
      ({ name, served, deprecated }) => served && !deprecated && compareVersions(name, version.name) < 0,
    )
    .toSorted((left, right) => compareVersions(left.name, right.name));
  const warning = `${group}/${version.name} ${names.kind} is deprecated`;
  return better === undefined ? warning : `${warning}; use ${group}/${better.name} ${names.kind}`;
}
