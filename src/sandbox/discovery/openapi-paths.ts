import type { ResourceVerb } from '../../machinery/request.ts';
import type { JsonObject, JsonValue } from '../../json/json.ts';
import { apiVersionOf, type ResourceType, type Subresource } from '../../machinery/resource-type.ts';
import { childSchema, type Schema } from '../../machinery/schema/schema.ts';
import { gvkOf, refTo, schemaName, SHARED, type GroupVersionKind, merged } from './openapi-names.ts';
import { subresourcesOf } from './resource-list.ts';

/**
 * The paths of one resource and their operations. kubectl derives from them whether `fieldValidation` and apply are
 * supported.
 */
export function pathsOf(type: ResourceType): JsonObject {
  const root = `/${type.group === '' ? 'api' : 'apis'}/${apiVersionOf(type)}`;
  const collection = `${root}/${type.namespaced ? 'namespaces/{namespace}/' : ''}${type.resource}`;
  const ofNamespace = type.namespaced ? ['namespace'] : [];
  const ofObject = [...ofNamespace, 'name'];
  return {
    ...pathItem(collection, ofNamespace, collectionOperations(type)),
    ...pathItem(`${collection}/{name}`, ofObject, objectOperations(type)),
    ...merged(
      subresourcesOf(type).map((subresource) =>
        pathItem(
          `${collection}/{name}/${subresource.name}`,
          ofObject,
          subresourceOperations(type, subresource),
        ),
      ),
    ),
    ...(type.namespaced && type.verbs.includes('list')
      ? pathItem(`${root}/${type.resource}`, [], { get: listing(type, 'ForAllNamespaces') })
      : {}),
  };
}

/** A path with its operations; empty if there are none. */
function pathItem(path: string, inPath: readonly string[], operations: JsonObject): JsonObject {
  if (Object.keys(operations).length === 0) return {};
  const parameters = inPath.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
  return { [path]: { ...operations, parameters } };
}

function collectionOperations(type: ResourceType): JsonObject {
  const own = refTo(schemaName(type, type.kind));
  return offered(type.verbs, {
    list: ['get', () => listing(type, '')],
    create: [
      'post',
      () => operation(type, 'post', 'create', { query: WRITE, body: jsonBody(own), answer: own }),
    ],
    deletecollection: [
      'delete',
      () =>
        operation(type, 'deletecollection', 'deleteCollection', {
          query: [...LIST, ...DELETE],
          body: jsonBody(refTo(SHARED.deleteOptions)),
          answer: refTo(SHARED.status),
        }),
    ],
  });
}

function objectOperations(type: ResourceType): JsonObject {
  const own = refTo(schemaName(type, type.kind));
  return {
    ...changes(type, type.verbs, type, own, ''),
    ...offered(type.verbs, {
      delete: [
        'delete',
        () =>
          operation(type, 'delete', 'delete', {
            query: DELETE,
            body: jsonBody(refTo(SHARED.deleteOptions)),
            answer: refTo(SHARED.status),
          }),
      ],
    }),
  };
}

function subresourceOperations(type: ResourceType, subresource: Required<Subresource>): JsonObject {
  const { name, verbs, kind } = subresource;
  const body = kind === type.kind ? refTo(schemaName(type, kind)) : { type: 'object' };
  const suffix = `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
  return {
    ...changes(type, verbs, subresource, body, suffix),
    ...offered(verbs, {
      create: [
        'post',
        () =>
          operation(type, 'post', 'create', {
            gvk: subresource,
            query: WRITE,
            body: jsonBody(body),
            answer: body,
            suffix,
          }),
      ],
    }),
  };
}

/** Operations to read, replace and patch one object or a subresource. */
function changes(
  type: ResourceType,
  verbs: readonly ResourceVerb[],
  gvk: GroupVersionKind,
  answer: JsonObject,
  suffix: string,
): JsonObject {
  const told = { gvk, answer, suffix };
  return offered(verbs, {
    get: ['get', () => operation(type, 'get', 'read', { ...told, query: [] })],
    update: [
      'put',
      () => operation(type, 'put', 'replace', { ...told, query: WRITE, body: jsonBody(answer) }),
    ],
    patch: [
      'patch',
      () => operation(type, 'patch', 'patch', { ...told, query: [...WRITE, 'force'], body: patchBody(type) }),
    ],
  });
}

type Offer = readonly [method: string, operation: () => JsonObject];

const offered = (
  verbs: readonly ResourceVerb[],
  offers: Readonly<Partial<Record<ResourceVerb, Offer>>>,
): JsonObject =>
  Object.fromEntries(
    verbs.flatMap((verb) => {
      const offer = offers[verb];
      return offer === undefined ? [] : [[offer[0], offer[1]()]];
    }),
  );

const listing = (type: ResourceType, suffix: string): JsonObject =>
  operation(type, 'list', 'list', { query: LIST, answer: refTo(schemaName(type, type.listKind)), suffix });

interface Operation {
  /** The kind, if it is not the resource's own kind. */
  readonly gvk?: GroupVersionKind;
  readonly query: readonly string[];
  readonly body?: JsonObject;
  readonly answer: JsonObject;
  /** The end of the operationId. */
  readonly suffix?: string;
}

function operation(type: ResourceType, action: string, verb: string, told: Operation): JsonObject {
  const { group, version, kind, namespaced } = type;
  const { gvk = type, query, body, answer, suffix = '' } = told;
  const names = [group === '' ? 'core' : (group.split('.', 1)[0] ?? ''), version];
  const tag = names.map((name) => `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`).join('');
  const scope = namespaced && suffix !== 'ForAllNamespaces' ? 'Namespaced' : '';
  return {
    operationId: `${verb}${tag}${scope}${kind}${suffix}`,
    tags: [names.join('_')],
    parameters: query.map(queryParameter),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: {
      '200': { description: 'OK', content: { 'application/json': { schema: answer } } },
      '401': { description: 'Unauthorized' },
    },
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': gvkOf(gvk),
  };
}

const WRITE = ['dryRun', 'fieldManager', 'fieldValidation'];
const DELETE = ['dryRun', 'gracePeriodSeconds', 'orphanDependents', 'propagationPolicy'];
const LIST = [
  'allowWatchBookmarks',
  'continue',
  'fieldSelector',
  'labelSelector',
  'limit',
  'resourceVersion',
  'resourceVersionMatch',
  'sendInitialEvents',
  'timeoutSeconds',
  'watch',
];

const BOOLEANS = ['allowWatchBookmarks', 'force', 'orphanDependents', 'sendInitialEvents', 'watch'];
const INTEGERS = ['gracePeriodSeconds', 'limit', 'timeoutSeconds'];

const queryParameter = (name: string): JsonObject => ({
  name,
  in: 'query',
  schema: {
    type: BOOLEANS.includes(name) ? 'boolean' : INTEGERS.includes(name) ? 'integer' : 'string',
    uniqueItems: true,
  },
});

const jsonBody = (schema: JsonValue): JsonObject => ({ content: { 'application/json': { schema } } });

function patchBody(type: ResourceType): JsonObject {
  const languages = [
    'application/apply-patch+yaml',
    'application/json-patch+json',
    'application/merge-patch+json',
    // kubectl computes strategic merge patches from the schema and warns if the schema is incomplete. If this patch
    // type is not offered here, it uses its built-in types.
    ...(type.custom || isOpen(type.schema) ? [] : ['application/strategic-merge-patch+json']),
  ];
  return {
    content: Object.fromEntries(languages.map((language) => [language, { schema: refTo(SHARED.patch) }])),
  };
}

/** Whether some part of the schema allows fields that it does not name. */
function isOpen(schema: Schema): boolean {
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return true;
  const names = Object.keys(schema.properties ?? {});
  const further = typeof schema.additionalProperties === 'object' ? [schema.additionalProperties] : [];
  const children = names.map((name) => childSchema(schema, name));
  return [...children, schema.items, ...further].some((child) => child !== undefined && isOpen(child));
}
