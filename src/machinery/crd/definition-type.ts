import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { withMeta, type ApiObject } from '../api-object.ts';
import type { ResourceType, Strategy } from '../resource-type.ts';
import {
  CLEANUP_FINALIZER,
  DEFINITIONS,
  readDefinition,
  storageVersionOf,
  storedVersions,
} from './definition.ts';
import { definitionSchema } from './definition-schema.ts';
import { record, text } from '../fields.ts';
import { pruneSchemaProps } from './schema-props.ts';
import { initialStatus, setCondition, withStorageVersion } from './status.ts';
import { validateDefinition } from './validate-definition.ts';
import { checkedFormat } from '../schema/formats.ts';
import type { Schema } from '../schema/schema.ts';

/**
 * Defaulting and validation that the API server applies to definitions.
 * @see k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition
 */
export const definitionStrategy: Strategy = {
  prepareForCreate: (crd) => ({
    ...withDefaults(crd),
    status: initialStatus(storageVersionOf(readDefinition(crd))),
  }),
  prepareForUpdate: (crd) => withStoredVersion(withDefaults(crd)),
  validate: validateDefinition,
  validateUpdate: () => [],
  warnings: definitionWarnings,
  beforeDelete: awaitCleanup,
  countsGenerations: true,
};

export const definitionType: ResourceType = {
  ...DEFINITIONS,
  version: 'v1',
  singular: 'customresourcedefinition',
  kind: 'CustomResourceDefinition',
  listKind: 'CustomResourceDefinitionList',
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  namespaced: false,
  verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
  schema: definitionSchema,
  custom: false,
  columns: [
    {
      name: 'Created At',
      type: 'date',
      description:
        'CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be ' +
        'set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 ' +
        'form and is in UTC.',
      // This column shows the time itself; other kinds show an age.
      value: ({ metadata }) => metadata.creationTimestamp ?? '',
    },
  ],
  hasStatus: true,
  storageVersion: 'v1',
  selectableFields: {},
  strategy: definitionStrategy,
};

/** The spec after decoding and defaulting. */
function withDefaults(crd: ApiObject): ApiObject {
  const { spec } = crd;
  if (!isJsonObject(spec)) return crd;
  const names = record(spec, 'names');
  const { versions } = spec;
  return {
    ...crd,
    spec: {
      ...spec,
      ...(names === undefined ? {} : { names: withDerivedNames(names) }),
      ...(versions === undefined ? {} : { versions: withPrunedSchemas(versions) }),
      conversion: record(spec, 'conversion') ?? { strategy: 'None' },
    },
  };
}

function withDerivedNames(names: JsonObject): JsonObject {
  const kind = text(names, 'kind');
  if (kind === '') return names;
  return {
    ...names,
    ...(text(names, 'singular') === '' ? { singular: kind.toLowerCase() } : {}),
    ...(text(names, 'listKind') === '' ? { listKind: `${kind}List` } : {}),
  };
}

function withPrunedSchemas(versions: JsonValue): JsonValue {
  if (!isJsonArray(versions)) return versions;
  return versions.map((version) => {
    const schema = isJsonObject(version) ? record(version, 'schema') : undefined;
    const props = schema && record(schema, 'openAPIV3Schema');
    if (!isJsonObject(version) || props === undefined) return version;
    return { ...version, schema: { ...schema, openAPIV3Schema: pruneSchemaProps(props) } };
  });
}

function withStoredVersion(crd: ApiObject): ApiObject {
  const stored = storedVersions(crd);
  const all = withStorageVersion(stored, storageVersionOf(readDefinition(crd)));
  if (all === stored) return crd;
  const status = isJsonObject(crd.status) ? crd.status : {};
  return { ...crd, status: { ...status, storedVersions: all } };
}

/** Keeps a deleted definition until the definitions controller has deleted its objects. */
function awaitCleanup(crd: ApiObject, now: string): ApiObject {
  const { finalizers = [] } = crd.metadata;
  const held = finalizers.includes(CLEANUP_FINALIZER)
    ? crd
    : withMeta(crd, { finalizers: [...finalizers, CLEANUP_FINALIZER] });
  return setCondition(
    held,
    {
      type: 'Terminating',
      status: 'True',
      reason: 'InstanceDeletionPending',
      message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon',
    },
    now,
  );
}

/**
 * What the API server warns of when it accepts a definition: formats that it ignores, and sets of objects or lists.
 * @param old whose warnings are not repeated
 * @see k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go
 */
function definitionWarnings(crd: ApiObject, old?: ApiObject): readonly string[] {
  const known = old === undefined ? [] : warningsOf(old);
  return warningsOf(crd).filter((warning) => !known.includes(warning));
}

function warningsOf(crd: ApiObject): readonly string[] {
  const nodes = readDefinition(crd).versions.flatMap(({ schema }) => nodesOf(schema));
  const formats = nodes.flatMap((node) =>
    (node.format ?? '') === '' || checkedFormat(node) !== undefined
      ? []
      : [`unrecognized format ${JSON.stringify(node.format)}`],
  );
  return [...formats, ...new Set(nodes.flatMap(setWarnings).toSorted())];
}

function setWarnings(node: Schema): readonly string[] {
  const { type = '' } = node.items ?? {};
  if (node['x-kubernetes-list-type'] !== 'set' || !['object', 'array'].includes(type)) return [];
  return [
    `x-kubernetes-list-type: set for items of type "${type}" is not supported by server-side apply or CEL validation rules`,
  ];
}

/** All parts of a schema, including branches. */
function nodesOf(schema: Schema | boolean | undefined): readonly Schema[] {
  if (typeof schema !== 'object') return [];
  const { items, allOf = [], anyOf = [], oneOf = [], not, properties = {}, additionalProperties } = schema;
  const children = [
    items,
    ...allOf,
    ...anyOf,
    ...oneOf,
    not,
    ...Object.values(properties),
    additionalProperties,
  ];
  return [schema, ...children.flatMap(nodesOf)];
}
