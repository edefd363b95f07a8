import type { ApiObject } from '../../machinery/api-object.ts';
import { stringifyJson } from '../../json/json.ts';
import { notFound } from '../../machinery/failure.ts';
import { apiVersionOf } from '../../machinery/resource-type.ts';
import type { Key, Place, Storage } from '../../machinery/storage/stored.ts';
import { accountGroups, accountUsername, AUTHENTICATED } from '../auth/authenticate.ts';
import type { Api } from '../pipeline/context.ts';
import { isDone } from '../pipeline/delete.ts';
import { handle } from '../pipeline/handle.ts';

/** Sends a controller's request through the whole pipeline, including webhooks. @throws ApiFailure */
export async function ask(
  api: Api,
  account: string,
  verb: 'delete' | 'deletecollection' | 'update',
  place: Place,
  key: Key,
  body?: object,
): Promise<void> {
  const type = api.registry.stored(place.group, place.resource);
  if (type === undefined) throw notFound(place, key.name);
  const { group, version, resource } = type;
  const { namespace, name } = key;
  const sent = body !== undefined && 'metadata' in body ? { ...body, apiVersion: apiVersionOf(type) } : body;
  await handle(api, {
    info: {
      kind: 'resource',
      verb,
      group,
      version,
      resource,
      subresource: '',
      namespace,
      name,
      path: '',
    },
    query: new URLSearchParams(),
    accept: undefined,
    contentType: undefined,
    userAgent: 'kube-controller-manager/sandbox',
    body: Buffer.from(sent === undefined ? '' : stringifyJson(sent)),
    user: {
      username: accountUsername({ namespace: 'kube-system', name: account }),
      groups: [...accountGroups('kube-system'), AUTHENTICATED],
    },
    notes: { warn: () => undefined, annotate: () => undefined },
  });
}

/** Writes without admission; removes a marked object whose last finalizer is gone. @throws ApiFailure 404, 409 */
export function replaceOrRemove(storage: Storage, place: Place, object: ApiObject): void {
  const { namespace = '', name = '', resourceVersion = '' } = object.metadata;
  if (isDone(object)) storage.remove(place, { namespace, name }, resourceVersion);
  else storage.replace(place, object, resourceVersion);
}
