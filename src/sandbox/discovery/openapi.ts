import { createHash } from 'node:crypto';

import { type JsonObject, memoizeWeak, objectIn, stringifyJson } from '../../json/json.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import {
  documentAnswer,
  type DocumentAnswer,
  GIT_VERSION,
  groupsOf,
  type ServedVersion,
} from './discovery.ts';
import { gvkOf, merged, pathsOf, refTo, schemaName, SHARED } from './openapi-paths.ts';
import { OBJECT_META } from '../../machinery/schema/object-meta.ts';
import { type Schema, schemaToJson } from '../../machinery/schema/schema.ts';

const TITLE = 'Kubernetes';

/** `/openapi/v3` and its documents. Undefined for all other paths; current clients do not need `/openapi/v2`. */
export function openApiAnswer(
  path: string,
  accept: string | undefined,
  registry: ResourceRegistry,
): DocumentAnswer | undefined {
  const [root, generation, ...below] = path.split('/').filter((part) => part !== '');
  if (root !== 'openapi' || generation !== 'v3') return undefined;
  const versions = groupsOf(registry.all()).flatMap((group) => group.versions);
  if (below.length === 0) return documentAnswer(indexOf(versions), accept);
  const version = versions.find((candidate) => keyOf(candidate) === below.join('/'));
  return version === undefined ? undefined : documentAnswer(documentOf(version), accept);
}

/** `api/v1`, `apis/infra.example.com/v1`. */
const keyOf = ({ groupVersion }: ServedVersion): string =>
  `${groupVersion.includes('/') ? 'apis' : 'api'}/${groupVersion}`;

function indexOf(versions: readonly ServedVersion[]): JsonObject {
  const entries = versions.map((version): readonly [string, JsonObject] => {
    const key = keyOf(version);
    // Clients cache a document as long as its hash is the same.
    return [key, { serverRelativeURL: `/openapi/v3/${key}?hash=${hashOf(version)}` }];
  });
  return { paths: Object.fromEntries(entries) };
}

function documentOf({ types }: ServedVersion): JsonObject {
  const parts = types.map(partOf);
  return {
    openapi: '3.0.0',
    info: { title: TITLE, version: GIT_VERSION },
    paths: merged(parts.map(({ paths }) => paths)),
    components: { schemas: merged([SHARED_SCHEMAS, ...parts.map(({ schemas }) => schemas)]) },
  };
}

/** Memoised by type, because types are immutable: a change to one CRD must not rebuild the others. */
const partOf = memoizeWeak((type: ResourceType) => {
  const described = { paths: pathsOf(type), schemas: schemasOf(type) };
  return { ...described, hash: sha256(stringifyJson(described)) };
});

const hashOf = ({ types }: ServedVersion): string => sha256(types.map((type) => partOf(type).hash).join());

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex').toUpperCase();

const API_VERSION: JsonObject = {
  type: 'string',
  description: 'The group and version of the schema that this object is written in.',
};

const KIND: JsonObject = { type: 'string', description: 'What kind of object this is, in CamelCase.' };

// A reference next to other keys is only read inside allOf.
const metadata = (name: string, description: string): JsonObject => ({ description, allOf: [refTo(name)] });

const OWN_FIELDS = {
  apiVersion: API_VERSION,
  kind: KIND,
  metadata: metadata(SHARED.objectMeta, "Standard object's metadata."),
};

function schemasOf(type: ResourceType): JsonObject {
  const { schema, kind, listKind } = type;
  const name = schemaName(type, kind);
  const published = schemaToJson(toPublished(schema, type.custom));
  return {
    [name]: {
      ...published,
      type: 'object',
      // A CRD may restrict metadata; the published schema refers to the common one.
      properties: { ...objectIn(published, 'properties'), ...OWN_FIELDS },
      'x-kubernetes-group-version-kind': [gvkOf(type)],
    },
    ...(type.verbs.includes('list') ? { [schemaName(type, listKind)]: toList(type, name) } : {}),
  };
}

function toList(type: ResourceType, name: string): JsonObject {
  return {
    type: 'object',
    description: `${type.listKind} is a list of ${type.kind}.`,
    required: ['items'],
    properties: {
      apiVersion: API_VERSION,
      items: { type: 'array', description: 'The objects.', items: refTo(name) },
      kind: KIND,
      metadata: metadata(SHARED.listMeta, "Standard list's metadata."),
    },
    'x-kubernetes-group-version-kind': [gvkOf({ ...type, kind: type.listKind })],
  };
}

/** The published form of a schema: with references where the API server has them. */
function toPublished(schema: Schema, custom: boolean): Schema {
  const { properties, items, additionalProperties } = schema;
  if (!custom && schema['x-kubernetes-int-or-string'] === true) return intOrString(schema);
  return {
    ...schema,
    ...(properties === undefined ? {} : { properties: publishedProperties(properties, custom) }),
    ...(items === undefined ? {} : { items: toPublished(items, custom) }),
    ...(typeof additionalProperties === 'object'
      ? { additionalProperties: toPublished(additionalProperties, custom) }
      : {}),
    ...(schema['x-kubernetes-embedded-resource'] === true ? { properties: embedded(schema, custom) } : {}),
  };
}

const publishedProperties = (properties: NonNullable<Schema['properties']>, custom: boolean) =>
  Object.fromEntries(Object.entries(properties).map(([key, value]) => [key, toPublished(value, custom)]));

// The following values contain references, which only published schemas have and Schema does not support.

const intOrString = ({ description }: Schema): Schema =>
  ({
    ...(description === undefined ? {} : { description }),
    allOf: [refTo(SHARED.intOrString)],
  }) as Schema;

/** An embedded object has the fields that every object has, unless it declares them itself. */
const embedded = ({ properties = {} }: Schema, custom: boolean) =>
  ({ ...OWN_FIELDS, ...publishedProperties(properties, custom) }) as NonNullable<Schema['properties']>;

const STRING = { type: 'string' };

const SHARED_SCHEMAS: JsonObject = {
  [SHARED.objectMeta]: { description: 'Metadata that every object has.', ...schemaToJson(OBJECT_META) },
  [SHARED.listMeta]: {
    description: 'Metadata of a list.',
    type: 'object',
    properties: {
      continue: STRING,
      remainingItemCount: { type: 'integer', format: 'int64' },
      resourceVersion: STRING,
      selfLink: STRING,
    },
  },
  [SHARED.status]: {
    description: 'The answer to a call that returns no other object.',
    type: 'object',
    properties: {
      apiVersion: API_VERSION,
      code: { type: 'integer', format: 'int32' },
      details: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      kind: KIND,
      message: STRING,
      metadata: metadata(SHARED.listMeta, "Standard list's metadata."),
      reason: STRING,
      status: STRING,
    },
    'x-kubernetes-group-version-kind': [{ group: '', version: 'v1', kind: 'Status' }],
  },
  [SHARED.deleteOptions]: {
    description: 'How to delete an object.',
    type: 'object',
    properties: {
      apiVersion: API_VERSION,
      dryRun: { type: 'array', items: STRING },
      gracePeriodSeconds: { type: 'integer', format: 'int64' },
      kind: KIND,
      orphanDependents: { type: 'boolean' },
      preconditions: { type: 'object', properties: { resourceVersion: STRING, uid: STRING } },
      propagationPolicy: STRING,
    },
  },
  [SHARED.patch]: { description: 'Changes to an object.', type: 'object' },
  [SHARED.intOrString]: { oneOf: [{ type: 'integer' }, STRING], format: 'int-or-string' },
};

/** An empty `/openapi/v2`: before a `kind: List` or an unknown kind, kubectl refuses the file if the document is missing. */
export function swaggerAnswer(
  path: string,
  accept: string | undefined,
): { readonly contentType: string; readonly text: string } | undefined {
  if (path !== '/openapi/v2') return undefined;
  if (accept?.includes('proto-openapi.spec.v2') === true) return { contentType: PROTOBUF, text: '' };
  return { contentType: 'application/json', text: JSON_TEXT };
}

/** With a dot instead of the `@` in the Accept header, which a Content-Type must not contain. */
const PROTOBUF = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';

const JSON_TEXT = stringifyJson({ swagger: '2.0', info: { title: TITLE, version: GIT_VERSION }, paths: {} });
