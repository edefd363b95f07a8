import { refuseUnacceptable } from '../http/content-type.ts';
import {
  badRequest,
  methodNotAllowed,
  methodNotSupported,
  noSuchResource,
  NoSuchPath,
  notFound,
} from '../../machinery/failure.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import type { Answer } from './answer.ts';
import type { Api, ApiRequest } from './context.ts';
import { create } from './create.ts';
import { deleteCollection, deleteOne } from './delete.ts';
import { patch } from './patch.ts';
import { get, list } from './read.ts';
import { handleScale, hasScale } from './scale.ts';
import { connect, connectionOf } from './subresources/connect.ts';
import { podRequestOf, requestOfPod } from './subresources/pod-requests.ts';
import { issueToken } from './service-account-token.ts';
import { update } from './update.ts';
import { watch } from './watch.ts';

/**
 * Handles an authorised request for a resource.
 * @throws ApiFailure every error of the request
 * @throws NoSuchPath if the resource does not exist and its group has no built-in kinds
 */
export async function handle(api: Api, request: ApiRequest, asked: ResourceRequest): Promise<Answer> {
  const type = api.registry.find(asked.group, asked.version, asked.resource);
  if (type === undefined) {
    const isBuiltIn = api.registry.all().some(({ group, custom }) => group === asked.group && !custom);
    throw isBuiltIn ? noSuchResource() : new NoSuchPath();
  }
  if (type.custom) refuseCustomPath(asked, type);
  else refusePath(asked, type);
  refuseUnacceptable(request.accept, { isWatch: asked.verb === 'watch', custom: type.custom });
  if (type.deprecationWarning !== undefined) request.notes.warn(type.deprecationWarning);
  // The path of a Namespace also sets the namespace, which only authorisation uses.
  const info = type.namespaced ? asked : { ...asked, namespace: '' };
  if (info.subresource !== '') return await handleSubresource(api, request, info, type);
  switch (info.verb) {
    case 'get':
      return await get(api, request, info, type);
    case 'list':
      return await list(api, request, info, type);
    case 'watch':
      return watch(api, request, info, type);
    case 'create':
      return await create(api, request, info, type);
    case 'update':
      return await update(api, request, info, type);
    case 'patch':
      return await patch(api, request, info, type);
    case 'delete':
      return await deleteOne(api, request, info, type);
    case 'deletecollection':
      return await deleteCollection(api, request, info, type);
  }
}

const OF_ALL_NAMESPACES = new Set(['list', 'watch']);
const OF_ONE_OBJECT = new Set(['get', 'update', 'patch', 'delete']);

/**
 * Built-in kinds have a route for each method of each path. @throws ApiFailure 404 for an unknown path, 405 for an
 * unknown method
 */
function refusePath({ verb, resource, namespace, name, subresource }: ResourceRequest, type: ResourceType) {
  if (!type.namespaced && namespace !== '' && resource !== 'namespaces') throw noSuchResource();
  if (type.namespaced && namespace === '') {
    if (name !== '' && !OF_ALL_NAMESPACES.has(verb)) throw noSuchResource();
    if (!OF_ALL_NAMESPACES.has(verb)) throw methodNotAllowed();
  }
  if (subresource !== '') return;
  // A list with a field selector for one name has that name.
  const isOfOne = name !== '' && !OF_ALL_NAMESPACES.has(verb);
  if (isOfOne !== OF_ONE_OBJECT.has(verb) || !type.verbs.includes(verb)) throw methodNotAllowed();
}

/**
 * One handler serves all custom resources (k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go).
 */
function refuseCustomPath({ verb, namespace, name, subresource }: ResourceRequest, type: ResourceType): void {
  if (type.namespaced ? namespace === '' && !OF_ALL_NAMESPACES.has(verb) : namespace !== '')
    throw new NoSuchPath();
  if (subresource !== '') return;
  if (OF_ONE_OBJECT.has(verb) && name === '') throw badRequest('name must be provided');
}

async function handleSubresource(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const isFinalize = info.subresource === 'finalize' && type.resource === 'namespaces' && type.group === '';
  if (info.subresource === 'token' && type.resource === 'serviceaccounts' && type.group === '') {
    if (info.verb !== 'create') throw methodNotAllowed();
    return await issueToken(api, request, info, type);
  }
  const connection = connectionOf(type, info.subresource);
  if (connection !== undefined) return await connect(api, request, info, type, connection);
  const podRequest = podRequestOf(type, info.subresource);
  if (podRequest !== undefined) return await requestOfPod(api, request, info, type, podRequest);
  if (info.subresource === 'scale' && hasScale(type)) return await handleScale(api, request, info, type);
  const isEphemeral =
    info.subresource === 'ephemeralcontainers' && type.resource === 'pods' && type.group === '';
  if (!isFinalize && !isEphemeral && !(info.subresource === 'status' && type.hasStatus)) {
    throw type.custom ? notFound(type, info.name) : noSuchResource();
  }
  if (info.verb === 'get') return await get(api, request, info, type);
  if (info.verb === 'update') return await update(api, request, info, type);
  if (info.verb === 'patch') return await patch(api, request, info, type);
  throw type.custom ? methodNotSupported(type, info.verb) : methodNotAllowed();
}
