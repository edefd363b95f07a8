import { type JsonValue, memoizeWeak, valueIn } from '../json/json.ts';
import type { ApiObject } from './api-object.ts';
import {
  acceptedNames,
  type Definition,
  type DefinitionColumn,
  DEFINITIONS,
  type DefinitionVersion,
  isConditionTrue,
  readDefinition,
  storageVersionOf,
} from './crd/definition.ts';
import type { ResourceVerb } from './request.ts';
import {
  apiVersionOf,
  compareVersions,
  plainStrategy,
  type PrinterColumn,
  type ResourceRegistry,
  type ResourceType,
  type Strategy,
} from './resource-type.ts';
import { ANYTHING } from './schema/schema.ts';
import type { Storage } from './storage/stored.ts';

/** API names contain no spaces, so joined keys are unambiguous. */
const joined = (...parts: readonly string[]) => parts.join(' ');

export function createRegistry(builtIns: readonly ResourceType[], storage: Storage): ResourceRegistry {
  let known: ReturnType<typeof indexOf> | undefined;
  const index = () => (known ??= indexOf(builtIns, storage.list(DEFINITIONS).items));
  storage.watch(DEFINITIONS, storage.revision(), () => {
    known = undefined;
  });
  return {
    find: (group, version, resource) => index().byResource.get(joined(group, version, resource)),
    findKind: (apiVersion, kind) => index().byKind.get(joined(apiVersion, kind)),
    stored: (group, resource) => index().stored.get(joined(group, resource)),
    all: () => index().all,
  };
}

function indexOf(builtIns: readonly ResourceType[], definitions: readonly ApiObject[]) {
  const defined = definitions.map(typesOf);
  const custom = defined.flatMap(({ served }) => served);
  // The last type of a key wins: a built-in kind takes precedence over a definition of the same resource.
  const types = [...custom, ...builtIns];
  const stored = [
    ...defined.flatMap((one) => one.stored ?? []),
    ...builtIns.filter(({ version, storageVersion }) => version === storageVersion),
  ];
  return {
    all: [...builtIns, ...custom],
    byResource: new Map(types.map((type) => [joined(type.group, type.version, type.resource), type])),
    byKind: new Map(types.map((type) => [joined(apiVersionOf(type), type.kind), type])),
    stored: new Map(stored.map((type) => [joined(type.group, type.resource), type])),
  };
}

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
  /** One for each served version, the preferred version first; none before the definition is established. */
  readonly served: readonly ResourceType[];
  readonly stored: ResourceType | undefined;
}

const NO_TYPES: CustomTypes = { served: [], stored: undefined };

/** The same types for the same definition, so that what is compiled for a type is compiled once. */
const typesOf = memoizeWeak((crd: ApiObject): CustomTypes => {
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
});

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
    ...(description === '' ? {} : { description }),
    priority,
    value: jsonPath,
  };
}

function toSelectableField(path: string): readonly [string, (object: ApiObject) => string] {
  const keys = path.split('.').filter((key) => key !== '');
  return [keys.join('.'), (object) => shown(valueIn(object, ...keys))];
}

const shown = (value: JsonValue = null): string =>
  value === null || typeof value === 'object' ? '' : String(value);

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
