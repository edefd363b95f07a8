import { methodNotAllowed, noSuchResource } from '../failure.ts';
import type { ResourceRequest } from '../request.ts';
import type { ResourceType } from '../resource-type.ts';
import type { Answer } from './answer.ts';
import type { Api, ApiRequest } from './context.ts';
import { create } from './create.ts';
import { deleteCollection, deleteOne } from './delete.ts';
import { patch } from './patch.ts';
import { get, list } from './read.ts';
import { issueToken } from './service-account-token.ts';
import { update } from './update.ts';
import { watch } from './watch.ts';

/**
 * A request for a resource, from an authorised user, to its answer.
 *
 * @throws ApiFailure whatever refuses it
 */
export async function handle(api: Api, request: ApiRequest, asked: ResourceRequest): Promise<Answer> {
  const type = api.registry.find(asked.group, asked.version, asked.resource);
  if (type === undefined) throw noSuchResource();
  // In the path of a Namespace its name stands for the namespace too: that is for authorisation.
  const info = type.namespaced ? asked : { ...asked, namespace: '' };
  if (type.namespaced && info.name !== '' && info.namespace === '' && !isCollection(info))
    throw noSuchResource();
  if (type.deprecationWarning !== undefined) request.notes.warn(type.deprecationWarning);
  if (info.subresource !== '') return await handleSubresource(api, request, info, type);
  if (!type.verbs.includes(info.verb)) {
    if (type.custom && info.verb === 'create') {
      throw methodNotAllowed('create not allowed while custom resource definition is terminating');
    }
    throw methodNotAllowed();
  }
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

const isCollection = ({ verb }: ResourceRequest) => verb === 'list' || verb === 'watch';

async function handleSubresource(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const isFinalize = info.subresource === 'finalize' && type.resource === 'namespaces' && type.group === '';
  if (info.subresource === 'token' && type.resource === 'serviceaccounts' && type.group === '') {
    if (info.verb !== 'create') throw methodNotAllowed();
    return issueToken(api, request, info, type);
  }
  if (!isFinalize && !(info.subresource === 'status' && type.hasStatus)) throw noSuchResource();
  if (info.verb === 'get') return await get(api, request, info, type);
  if (info.verb === 'update') return await update(api, request, info, type);
  if (info.verb === 'patch') return await patch(api, request, info, type);
  throw methodNotAllowed();
}
