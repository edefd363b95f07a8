/** What an API server would serve that has the definitions which were read. */
import { validateCreate } from '../../sandbox/machinery/objects/validate.ts';
import type { Resolve } from '../../admission/policy/match/compile-match.ts';
import type { JsonObject } from '../../json/json.ts';
import { customResourceDefinitions } from '../../api/crds.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { ofJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import { DEFINITIONS, isConditionTrue, conditionsOf } from '../../sandbox/machinery/crd/definition.ts';
import { definitionType } from '../../sandbox/machinery/crd/definition-type.ts';
import { planDefinitionStatus } from '../../sandbox/machinery/crd/status.ts';
import { ApiFailure } from '../../sandbox/machinery/failure.ts';
import { builtInKind } from '../../sandbox/machinery/kinds/built-in-kind.ts';
import { builtInTypes } from '../../sandbox/machinery/kinds/built-in-types.ts';
import { createServiceAllocators } from '../../sandbox/machinery/kinds/services/service-allocation.ts';
import { decodeObject } from '../../sandbox/machinery/objects/decode.ts';
import { createRegistry } from '../../sandbox/machinery/registry.ts';
import {
  plainStrategy,
  type ResourceRegistry,
  type ResourceType,
} from '../../sandbox/machinery/resource-type.ts';
import { ANYTHING, schemaToJson } from '../../sandbox/machinery/schema/schema.ts';
import type { Storage } from '../../sandbox/machinery/storage/stored.ts';
import { FURTHER_BUILT_IN_KINDS, guessPlural, type KindNames } from './built-in-kinds.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';
import { refuse } from './input.ts';

export interface Kinds {
  readonly registry: ResourceRegistry;
  /** What kind of object it is; a sentence says why it is none that is served. */
  readonly typeOf: (object: JsonObject) => ResourceType | string;
  readonly resolve: Resolve;
  /** The schemas of a custom kind in these versions; undefined where nothing is known of its fields. */
  readonly schemas: (
    resource: GroupResource,
    versions: readonly string[],
  ) => readonly JsonObject[] | undefined;
  /** What was assumed for want of a definition. */
  readonly notes: readonly string[];
}

/** Definitions have a status that says since when; nobody reads it here. */
const EPOCH = '1970-01-01T00:00:00Z';
const SILENT = { warn: () => undefined, annotate: () => undefined };

/**
 * @param storage gets the definitions, and nothing else
 * @throws UnusableInput when a definition is none that an API server would take
 */
export function createKinds(objects: readonly PlacedObject[], storage: Storage): Kinds {
  // Our own need no check: they are what the tests of this repository install.
  for (const { manifest } of customResourceDefinitions()) establish(ofJson(manifest as JsonObject), storage);
  refuse(objects.filter(isDefinition).flatMap((placed) => define(placed, storage)));
  const served = [
    ...builtInTypes({}, createServiceAllocators(storage)).map(withoutOwnChecks),
    definitionType,
    ...FURTHER_BUILT_IN_KINDS.map((names) => toType(names, false)),
  ];
  const known = createRegistry(served, storage);
  const guessed = guessKinds(objects, known);
  const registry = createRegistry([...served, ...guessed], storage);
  return {
    registry,
    typeOf: (object) =>
      registry.findKind(textOf(object, 'apiVersion'), textOf(object, 'kind')) ?? unserved(object, registry),
    resolve: ({ group, resource }) => registry.stored(group, resource),
    schemas: ({ group, resource }, versions) => {
      const types = registry
        .all()
        .filter((type) => type.custom && type.group === group && type.resource === resource)
        .filter(({ version }) => versions.includes('*') || versions.includes(version));
      const known = types.length > 0 && types.every(({ schema }) => schema.properties !== undefined);
      return known ? types.map(({ schema }) => schemaToJson(schema)) : undefined;
    },
    notes: guessed.map(describeGuess),
  };
}

const isDefinition = ({ object }: PlacedObject): boolean =>
  textOf(object, 'apiVersion').startsWith(`${DEFINITIONS.group}/`) &&
  textOf(object, 'kind') === 'CustomResourceDefinition';

/** Puts a definition in force, in the place of an earlier one of its name. What is wrong with it is returned. */
function define({ object, place }: PlacedObject, storage: Storage): readonly string[] {
  const fail = (message: string) => [`${describePlace(place)}: ${message}`];
  const apiVersion = textOf(object, 'apiVersion');
  if (apiVersion !== `${DEFINITIONS.group}/v1`) {
    return fail(
      `CustomResourceDefinitions of ${apiVersion} are not read: write it in ${DEFINITIONS.group}/v1`,
    );
  }
  try {
    const decoded = decodeObject(object, definitionType, 'Ignore', SILENT);
    validateCreate(definitionType.strategy.prepareForCreate(decoded), definitionType);
    const established = establish(decoded, storage);
    return isConditionTrue(established, 'Established') ? [] : fail(whyNot(established));
  } catch (error) {
    if (error instanceof ApiFailure) return fail(error.message);
    throw error;
  }
}

function establish(crd: ApiObject, storage: Storage): ApiObject {
  const prepared = definitionType.strategy.prepareForCreate(crd);
  const key = { namespace: '', name: prepared.metadata.name ?? '' };
  const before = storage.get(DEFINITIONS, key);
  if (before !== undefined) storage.remove(DEFINITIONS, key, before.metadata.resourceVersion ?? '');
  const established = planDefinitionStatus(prepared, storage.list(DEFINITIONS).items, EPOCH);
  return storage.create(DEFINITIONS, established);
}

const whyNot = (crd: ApiObject): string =>
  conditionsOf(crd)
    .filter(({ status }) => status === 'False')
    .map(({ message }) => message)
    .join('; ');

/** What a built-in kind's own code demands holds for what the API server has filled in, such as the address of a Service. */
const withoutOwnChecks = (type: ResourceType): ResourceType => {
  const { completeDefaults, nameProblem } = type.strategy;
  return {
    ...type,
    strategy: {
      ...plainStrategy,
      ...(completeDefaults === undefined ? {} : { completeDefaults }),
      ...(nameProblem === undefined ? {} : { nameProblem }),
    },
  };
};

function toType({ apiVersion, kind, resource, namespaced }: KindNames, custom: boolean): ResourceType {
  return {
    ...builtInKind({
      apiVersion,
      kind,
      resource,
      fields: {},
      description: '',
      ...(namespaced ? { namespaced } : {}),
    }),
    schema: ANYTHING,
    custom,
  };
}

/** A type for each kind that was read and that nobody defines; all its versions are served. */
function guessKinds(objects: readonly PlacedObject[], registry: ResourceRegistry): readonly ResourceType[] {
  const byKind = Map.groupBy(objects, ({ object }) => `${groupOf(object)}/${textOf(object, 'kind')}`);
  return [...byKind.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined || versionsOf(first.object, registry).length > 0) return [];
    const kind = textOf(first.object, 'kind');
    const namespaced = same.some(({ object }) => hasNamespace(object));
    const apiVersions = new Set(same.map(({ object }) => textOf(object, 'apiVersion')));
    const [storageVersion] = [...apiVersions].map(versionOf);
    return [...apiVersions].map((apiVersion) => ({
      ...toType({ apiVersion, kind, resource: guessPlural(kind), namespaced }, true),
      ...(storageVersion === undefined ? {} : { storageVersion }),
    }));
  });
}

function describeGuess({ group, version, kind, resource, namespaced }: ResourceType): string {
  const scope = namespaced ? 'in namespaces' : 'without namespace';
  return `no definition of ${kind} (${group}/${version}) was read: taken for ${groupResourceName({ group, resource })}, ${scope}, with any fields; add its CustomResourceDefinition to the crds`;
}

/** Why the kind is not served although others of its name are. */
function unserved(object: JsonObject, registry: ResourceRegistry): string {
  const versions = versionsOf(object, registry);
  const kind = textOf(object, 'kind');
  return `${kind} is not served in ${textOf(object, 'apiVersion')}, only in ${versions.join(', ')}`;
}

/** The API versions in which a kind of this name and group is served. */
function versionsOf(object: JsonObject, registry: ResourceRegistry): readonly string[] {
  const group = groupOf(object);
  const kind = textOf(object, 'kind');
  return registry
    .all()
    .filter((type) => type.group === group && type.kind === kind)
    .map(({ version }) => (group === '' ? version : `${group}/${version}`));
}

function groupOf(object: JsonObject): string {
  const apiVersion = textOf(object, 'apiVersion');
  return apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
}

const versionOf = (apiVersion: string): string => apiVersion.slice(apiVersion.indexOf('/') + 1);

const hasNamespace = (object: JsonObject): boolean => metaTextOf(object, 'namespace') !== '';
