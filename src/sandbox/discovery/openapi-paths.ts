import type { ResourceVerb } from '../../machinery/request.ts';
import type { JsonObject } from '../../json/json.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { childSchema, type Schema } from '../../machinery/schema/schema.ts';
import { subresourcesOf } from './discovery.ts';

/** The paths of one resource. kubectl derives from them whether `fieldValidation` and apply are supported. */
export function pathsOf(type: ResourceType): JsonObject {
  const root = `/${type.group === '' ? 'api' : 'apis'}/${apiVersionOf(type)}`;
  const collection = `${root}/${type.namespaced ? 'namespaces/{namespace}/' : ''}${type.resource}`;
  const ofNamespace = type.namespaced ? ['namespace'] : [];
  const ofObject = [...ofNamespace, 'name'];
  const own: Target = { gvk: type, body: refTo(schemaName(type, type.kind)) };
  return merged([
    pathItem(collection, ofNamespace, type, type.verbs, ['list', 'create', 'deletecollection'], own),
    pathItem(`${collection}/{name}`, ofObject, type, type.verbs, ['get', 'update', 'patch', 'delete'], own),
    ...subresourcesOf(type).map(({ name, verbs, ...gvk }) =>
      pathItem(`${collection}/{name}/${name}`, ofObject, type, verbs, ['get', 'update', 'patch', 'create'], {
        gvk,
        body: gvk.kind === type.kind ? own.body : { type: 'object' },
      }),
    ),
    type.namespaced ? pathItem(`${root}/${type.resource}`, [], type, type.verbs, ['list'], own) : {},
  ]);
}

interface Target {
  readonly gvk: GroupVersionKind;
  /** The schema of the object. */
  readonly body: JsonObject;
}

function pathItem(
  path: string,
  inPath: readonly string[],
  type: ResourceType,
  served: readonly ResourceVerb[],
  possible: readonly Verb[],
  target: Target,
): JsonObject {
  const verbs = possible.filter((verb) => served.includes(verb));
  if (verbs.length === 0) return {};
  const operations = verbs.map((verb) => [OPERATIONS[verb].method, operation(type, verb, target)] as const);
  const parameters = inPath.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
  return { [path]: { ...Object.fromEntries(operations), parameters } };
}

const WRITE = ['dryRun', 'fieldManager', 'fieldValidation'];

type Verb = Exclude<ResourceVerb, 'watch'>;

/** For each verb: the HTTP method, and the query parameters that kubectl looks for. */
const OPERATIONS: Readonly<Record<Verb, { readonly method: string; readonly query: readonly string[] }>> = {
  list: { method: 'get', query: [] },
  create: { method: 'post', query: WRITE },
  deletecollection: { method: 'delete', query: ['dryRun'] },
  get: { method: 'get', query: [] },
  update: { method: 'put', query: WRITE },
  patch: { method: 'patch', query: WRITE },
  delete: { method: 'delete', query: ['dryRun'] },
};

function operation(type: ResourceType, verb: Verb, { gvk, body }: Target): JsonObject {
  const { method, query } = OPERATIONS[verb];
  const isDeletion = verb === 'delete' || verb === 'deletecollection';
  const answer =
    verb === 'list' ? refTo(schemaName(type, type.listKind)) : isDeletion ? refTo(SHARED.status) : body;
  return {
    parameters: query.map((name) => ({ name, in: 'query', schema: { type: 'string' } })),
    ...(verb === 'get' || verb === 'list' ? {} : { requestBody: { content: contentOf(type, verb, body) } }),
    responses: { '200': { description: 'OK', content: { 'application/json': { schema: answer } } } },
    'x-kubernetes-action': verb === 'list' || verb === 'deletecollection' ? verb : method,
    'x-kubernetes-group-version-kind': gvkOf(gvk),
  };
}

function contentOf(type: ResourceType, verb: Verb, body: JsonObject): JsonObject {
  if (verb === 'create' || verb === 'update') return { 'application/json': { schema: body } };
  if (verb !== 'patch') return { 'application/json': { schema: refTo(SHARED.deleteOptions) } };
  const languages = [
    'application/apply-patch+yaml',
    'application/json-patch+json',
    'application/merge-patch+json',
    // kubectl computes strategic merge patches from a complete schema. If they are not offered here, it uses its built-in types.
    ...(type.custom || isOpen(type.schema) ? [] : ['application/strategic-merge-patch+json']),
  ];
  return Object.fromEntries(languages.map((language) => [language, { schema: refTo(SHARED.patch) }]));
}

/** Whether some part of the schema allows fields that it does not name. */
function isOpen(schema: Schema): boolean {
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return true;
  const names = Object.keys(schema.properties ?? {});
  const further = typeof schema.additionalProperties === 'object' ? [schema.additionalProperties] : [];
  const children = names.map((name) => childSchema(schema, name));
  return [...children, schema.items, ...further].some((child) => child !== undefined && isOpen(child));
}

export const refTo = (name: string): { readonly $ref: string } => ({ $ref: `#/components/schemas/${name}` });

const META = 'io.k8s.apimachinery.pkg.apis.meta.v1';

export const SHARED = {
  objectMeta: `${META}.ObjectMeta`,
  listMeta: `${META}.ListMeta`,
  status: `${META}.Status`,
  deleteOptions: `${META}.DeleteOptions`,
  patch: `${META}.Patch`,
  intOrString: 'io.k8s.apimachinery.pkg.util.intstr.IntOrString',
} as const;

/** The Go packages of groups outside k8s.io/api. */
const OTHER_PACKAGES: Readonly<Record<string, string>> = {
  'apiextensions.k8s.io': 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions',
  'apiregistration.k8s.io': 'io.k8s.kube-aggregator.pkg.apis.apiregistration',
};

/** `io.k8s.api.core.v1.Service` from the Go package of a built-in kind, `com.example.infra.v1.Server` from a group. */
export function schemaName({ group, version, custom }: ResourceType, kind: string): string {
  return `${custom ? group.split('.').toReversed().join('.') : packageOf(group)}.${version}.${kind}`;
}

function packageOf(group: string): string {
  const other = Object.hasOwn(OTHER_PACKAGES, group) ? OTHER_PACKAGES[group] : undefined;
  return other ?? `io.k8s.api.${group === '' ? 'core' : (group.split('.', 1)[0] ?? group)}`;
}

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

/** Exactly these keys, because kubectl compares the whole object. */
export const gvkOf = ({ group, version, kind }: GroupVersionKind): JsonObject => ({ group, version, kind });

/** One object with the fields of all; the last one wins. */
export const merged = (objects: readonly JsonObject[]): JsonObject =>
  Object.fromEntries(objects.flatMap((object) => Object.entries(object)));
