import {
  ApiFailure,
  badRequest,
  methodNotAllowed,
  methodNotSupported,
  noSuchResource,
  NoSuchPath,
  notFound,
} from '../../machinery/failure.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import type { Answer, Api, ApiRequest, Call } from './context.ts';
import { create } from './create.ts';
import { deleteCollection, deleteOne } from './delete.ts';
import { patch } from './patch.ts';
import { get, list } from './read.ts';
import { issueToken } from './subresources/token.ts';
import { handleScale, hasScale } from './subresources/scale.ts';
import { update } from './update.ts';
import { watch } from './watch.ts';

/** Handles an authorised request for a resource. @throws ApiFailure every error of the request */
export async function handle(api: Api, request: ApiRequest): Promise<Answer> {
  const asked = request.info;
  const type = api.registry.find(asked.group, asked.version, asked.resource);
  if (type === undefined) {
    const isBuiltIn = api.registry.all().some(({ group, custom }) => group === asked.group && !custom);
    throw isBuiltIn ? noSuchResource() : new NoSuchPath();
  }
  if (type.custom) refuseCustomPath(asked, type);
  else refusePath(asked, type);
  if (type.deprecationWarning !== undefined) request.notes.warn(type.deprecationWarning);
  // The path of a Namespace also sets the namespace, which only authorisation uses.
  const info = type.namespaced ? asked : { ...asked, namespace: '' };
  const call: Call = { api, request, info, type };
  if (info.subresource !== '') return await handleSubresource(call);
  switch (info.verb) {
    case 'get':
      return await get(call);
    case 'list':
      return await list(call);
    case 'watch':
      return watch(call);
    case 'create':
      return await create(call);
    case 'update':
      return await update(call);
    case 'patch':
      return await patch(call);
    case 'delete':
      return await deleteOne(call);
    case 'deletecollection':
      return await deleteCollection(call);
  }
}

const OF_ALL_NAMESPACES = new Set(['list', 'watch']);
const OF_ONE_OBJECT = new Set(['get', 'update', 'patch', 'delete']);

/** Built-in kinds have a route for each method of each path. */
function refusePath({ verb, resource, namespace, name, subresource }: ResourceRequest, type: ResourceType) {
  if (!type.namespaced && namespace !== '' && resource !== 'namespaces') throw noSuchResource();
  if (type.namespaced && namespace === '' && !OF_ALL_NAMESPACES.has(verb))
    throw name === '' ? methodNotAllowed() : noSuchResource();
  if (subresource !== '') return;
  // A list with a field selector for one name has that name.
  const isOfOne = name !== '' && !OF_ALL_NAMESPACES.has(verb);
  if (isOfOne !== OF_ONE_OBJECT.has(verb) || !type.verbs.includes(verb)) throw methodNotAllowed();
}

/** One handler serves all custom resources (customresource_handler.go of apiextensions-apiserver). */
function refuseCustomPath({ verb, namespace, name, subresource }: ResourceRequest, type: ResourceType): void {
  if (type.namespaced ? namespace === '' && !OF_ALL_NAMESPACES.has(verb) : namespace !== '')
    throw new NoSuchPath();
  if (subresource !== '') return;
  if (OF_ONE_OBJECT.has(verb) && name === '') throw badRequest('name must be provided');
}

/** Subresources without a separate kind that only some built-in kinds have. */
const OWN_PARTS = new Set(['namespaces/finalize', 'pods/ephemeralcontainers']);

/** Subresources that need a node, a scheduler or endpoints. */
const OF_RUNNING_PODS = new Set([
  ...['attach', 'binding', 'eviction', 'exec', 'log', 'portforward', 'proxy', 'resize'].map(
    (name) => `pods/${name}`,
  ),
  'nodes/proxy',
  'services/proxy',
]);

async function handleSubresource(call: Call): Promise<Answer> {
  const { info, type } = call;
  const path = type.group === '' ? `${type.resource}/${info.subresource}` : '';
  if (path === 'serviceaccounts/token') return await issueToken(call);
  if (OF_RUNNING_PODS.has(path))
    throw new ApiFailure(501, 'NotImplemented', `${path} is not supported: the sandbox runs no pods`);
  if (info.subresource === 'scale' && hasScale(type)) return await handleScale(call, type);
  if (!OWN_PARTS.has(path) && !(info.subresource === 'status' && type.hasStatus)) {
    throw type.custom ? notFound(type, info.name) : noSuchResource();
  }
  if (info.verb === 'get') return await get(call);
  if (info.verb === 'update') return await update(call);
  if (info.verb === 'patch') return await patch(call);
  throw type.custom ? methodNotSupported(type, info.verb) : methodNotAllowed();
}
