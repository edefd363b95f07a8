import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { withMeta, type ApiObject } from '../api-object.ts';
import { isEmpty, record, text } from '../fields.ts';
import { builtInKind, CREATED_AT } from '../kinds/built-in-kind.ts';
import * as s from '../kinds/schema-builders.ts';
import { CLIENT_CONFIG } from '../kinds/webhooks/webhook-configuration.ts';
import type { ResourceType } from '../resource-type.ts';
import {
  CLEANUP_FINALIZER,
  DEFINITIONS,
  readDefinition,
  storageVersionOf,
  storedVersions,
} from './definition.ts';
import { initialStatus, setCondition, withStorageVersion } from './status.ts';
import { validateDefinition } from './validate-definition.ts';

// `required` and `enum` are not used: like the API server, validateDefinition reports these problems.

const NAMES = s.object({
  plural: s.STRING,
  singular: s.STRING,
  shortNames: s.STRINGS,
  kind: s.STRING,
  listKind: s.STRING,
  categories: s.STRINGS,
});

const COLUMN = s.object({
  name: s.STRING,
  type: s.STRING,
  format: s.STRING,
  description: s.STRING,
  priority: s.INT32,
  jsonPath: s.STRING,
});

const SCALE = s.object({
  specReplicasPath: s.STRING,
  statusReplicasPath: s.STRING,
  labelSelectorPath: s.STRING,
});

const VERSION = s.object({
  name: s.STRING,
  served: s.withDefault(s.BOOLEAN, false),
  storage: s.withDefault(s.BOOLEAN, false),
  deprecated: s.BOOLEAN,
  deprecationWarning: s.STRING,
  schema: s.object({ openAPIV3Schema: s.openObject({}) }),
  subresources: s.object({ status: s.openObject({}), scale: SCALE }),
  additionalPrinterColumns: s.listOf(COLUMN),
  selectableFields: s.listOf(s.object({ jsonPath: s.STRING })),
});

const CONDITION = s.object({
  type: s.STRING,
  status: s.STRING,
  lastTransitionTime: s.TIME,
  reason: s.STRING,
  message: s.STRING,
  observedGeneration: s.INT64,
});

/** apiextensions.k8s.io/v1 CustomResourceDefinition (pkg/registry/customresourcedefinition of apiextensions-apiserver). */
export const definitionType: ResourceType = builtInKind({
  apiVersion: `${DEFINITIONS.group}/v1`,
  kind: 'CustomResourceDefinition',
  resource: DEFINITIONS.resource,
  shortNames: ['crd', 'crds'],
  categories: ['api-extensions'],
  description:
    'Makes the API server serve a resource of your own. Its name is the plural and the group, joined by a dot.',
  fields: {
    spec: s.object({
      group: s.STRING,
      scope: s.STRING,
      names: NAMES,
      versions: s.listOf(VERSION),
      conversion: s.object({
        strategy: s.STRING,
        webhook: s.object({ clientConfig: CLIENT_CONFIG, conversionReviewVersions: s.STRINGS }),
      }),
      preserveUnknownFields: s.BOOLEAN,
    }),
    status: s.object({
      conditions: {
        ...s.listOf(CONDITION),
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
      },
      acceptedNames: NAMES,
      storedVersions: s.STRINGS,
      observedGeneration: s.INT64,
    }),
  },
  columns: [CREATED_AT],
  hasStatus: true,
  strategy: {
    prepareForCreate: (crd) => ({
      ...withDefaults(crd),
      status: initialStatus(storageVersionOf(readDefinition(crd))),
    }),
    prepareForUpdate: (crd) => withStoredVersion(withDefaults(crd)),
    validate: validateDefinition,
    beforeDelete: awaitCleanup,
    countsGenerations: true,
  },
});

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

/** The keywords of JSONSchemaProps by content, for pruning. Decoding drops other keywords. */
const KEYWORDS: readonly (readonly [holds: Keyword, names: readonly string[]])[] = [
  // What Go decodes into a plain value with `omitempty` is dropped when empty.
  [
    'empty-is-absent',
    [
      ...['id', '$schema', 'description', 'type', 'format', 'title', 'exclusiveMaximum', 'exclusiveMinimum'],
      ...['pattern', 'uniqueItems', 'enum', 'required', 'nullable', 'x-kubernetes-embedded-resource'],
      ...['x-kubernetes-int-or-string', 'x-kubernetes-list-map-keys', 'x-kubernetes-validations'],
    ],
  ],
  [
    'kept',
    [
      ...[
        '$ref',
        'default',
        'maximum',
        'minimum',
        'maxLength',
        'minLength',
        'maxItems',
        'minItems',
        'multipleOf',
      ],
      ...['maxProperties', 'minProperties', 'dependencies', 'externalDocs', 'example'],
      ...['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-list-type', 'x-kubernetes-map-type'],
    ],
  ],
  ['schema', ['items', 'not', 'additionalProperties', 'additionalItems']],
  ['schemas', ['allOf', 'oneOf', 'anyOf']],
  ['named-schemas', ['properties', 'patternProperties', 'definitions']],
];

type Keyword = 'empty-is-absent' | 'kept' | 'schema' | 'schemas' | 'named-schemas';

const KEYWORD = new Map(KEYWORDS.flatMap(([holds, names]) => names.map((name) => [name, holds] as const)));

/** A schema as the API server stores it: only known keywords, without meaningless empty values. */
function pruneSchemaProps(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema).flatMap(([keyword, value]) => {
    const holds = value === null ? undefined : KEYWORD.get(keyword);
    const kept = holds && pruneValue(value, holds);
    return kept === undefined ? [] : [[keyword, kept] as const];
  });
  return Object.fromEntries(entries);
}

const prunedSchema = (value: JsonValue): JsonValue => (isJsonObject(value) ? pruneSchemaProps(value) : value);

function pruneValue(value: JsonValue, holds: Keyword): JsonValue | undefined {
  switch (holds) {
    case 'kept':
      return value;
    case 'schema':
      return prunedSchema(value);
    case 'empty-is-absent':
      return isAbsent(value) ? undefined : value;
    case 'schemas':
      if (isAbsent(value)) return undefined;
      return isJsonArray(value) ? value.map(prunedSchema) : value;
    case 'named-schemas':
      if (isAbsent(value)) return undefined;
      return isJsonObject(value)
        ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, prunedSchema(item)]))
        : value;
  }
}

const isAbsent = (value: JsonValue) => value === '' || value === false || isEmpty(value);
