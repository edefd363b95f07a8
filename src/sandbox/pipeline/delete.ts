import { isJsonArray, isJsonObject, ownValue } from '../../json/json.ts';
import { field, withMeta, type ApiObject, timestamp } from '../../machinery/api-object.ts';
import { conflict, notFound, type ApiFailure } from '../../machinery/failure.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { type Key, type Place, placeOf } from '../../machinery/storage/stored.ts';
import { deletedAnswer, objectAnswer, type Answer } from './answer.ts';
import type { Api, ApiRequest } from './context.ts';
import { refuseProtectedNamespace } from './namespace-lifecycle.ts';
import { deleteOptionsOf, type DeleteOptions } from './options.ts';
import { acceptsOf } from './read.ts';

/** Finalizers that request work from the garbage collector. */
const ORPHAN = 'orphan';
const FOREGROUND = 'foregroundDeletion';

/** DELETE of one object. */
export async function deleteOne(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const options = deleteOptionsOf(request);
  const key = { namespace: info.namespace, name: info.name };
  refuseProtectedNamespace(type, info.name);
  const stored = api.storage.get(placeOf(type), key);
  if (stored === undefined) throw notFound(type, info.name);
  const [live = stored] = await api.convert([stored], type);
  const attributes = {
    operation: 'DELETE',
    type,
    subresource: '',
    namespace: info.namespace,
    name: info.name,
    oldObject: live,
    user: request.user,
    dryRun: options.dryRun,
    options: options.json,
  } as const;
  await api.admission.mutate(attributes, (object) => object, request.notes);
  await api.admission.validate(attributes, request.notes);
  const outcome = removeOrMark(api, placeOf(type), key, options);
  if (outcome === undefined) throw notFound(type, info.name);
  if (outcome.kind === 'removed') return deletedAnswer(type, outcome.object);
  const [shown = outcome.object] = await api.convert([outcome.object], type);
  return objectAnswer(type, shown);
}

/**
 * DELETE of a collection: every object that the selectors match. Webhooks see each object without a name in the
 * request.
 */
export async function deleteCollection(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const options = deleteOptionsOf(request);
  const accepts = acceptsOf(request.query, type);
  const page = api.storage.list(placeOf(type), {
    ...(type.namespaced && info.namespace !== '' ? { namespace: info.namespace } : {}),
    ...(accepts === undefined ? {} : { accepts }),
  });
  const attributes = {
    operation: 'DELETE',
    type,
    subresource: '',
    namespace: info.namespace,
    name: '',
    user: request.user,
    dryRun: options.dryRun,
    options: options.json,
  } as const;
  await api.admission.mutate(attributes, (object) => object, request.notes);
  const deleted: ApiObject[] = [];
  for (const stored of page.items) {
    const [live = stored] = await api.convert([stored], type);
    await api.admission.validate({ ...attributes, oldObject: live }, request.notes);
    const key = { namespace: live.metadata.namespace ?? '', name: live.metadata.name ?? '' };
    const outcome = removeOrMark(api, placeOf(type), key, options);
    if (outcome !== undefined) deleted.push(outcome.kind === 'removed' ? live : outcome.object);
  }
  return { kind: 'list', type, page: { items: deleted, revision: api.storage.revision() } };
}

export type Removal =
  | { readonly kind: 'removed'; readonly object: ApiObject }
  /** The object has finalizers: it is marked, and removed with its last finalizer. */
  | { readonly kind: 'marked'; readonly object: ApiObject };

export type RemovalOptions = Pick<DeleteOptions, 'dryRun' | 'propagationPolicy' | 'preconditions'>;

/**
 * Removes the object or marks it for deletion, as registry.Store.Delete does; undefined if it does not exist.
 * @throws ApiFailure 409 if a precondition fails
 */
export function removeOrMark(
  { storage, registry, now }: Pick<Api, 'storage' | 'registry' | 'now'>,
  place: Place,
  key: Key,
  { dryRun, propagationPolicy, preconditions }: RemovalOptions,
): Removal | undefined {
  const live = storage.get(place, key);
  if (live === undefined) return undefined;
  checkPreconditions(place, live, preconditions);
  const strategy = registry.stored(place.group, place.resource)?.strategy;
  const isFirst = live.metadata.deletionTimestamp === undefined;
  const prepared = isFirst ? (strategy?.beforeDelete?.(live, timestamp(now())) ?? live) : live;
  const finalizers = finalizersFor(prepared.metadata.finalizers ?? [], propagationPolicy);
  const version = live.metadata.resourceVersion ?? '';
  const marked = marking(prepared, finalizers, timestamp(now()));
  if (isDone(marked)) {
    return { kind: 'removed', object: dryRun ? live : storage.remove(place, key, version) };
  }
  if (marked === prepared || dryRun) return { kind: 'marked', object: marked };
  return { kind: 'marked', object: storage.replace(place, marked, version) };
}

/** Whether the object is marked for deletion and has no finalizers left. */
export function isDone(object: ApiObject): boolean {
  const { deletionTimestamp, finalizers = [] } = object.metadata;
  return deletionTimestamp !== undefined && finalizers.length === 0 && !isHeldNamespace(object);
}

/** A Namespace is also held by `spec.finalizers` until it is empty. */
function isHeldNamespace(object: ApiObject): boolean {
  if (object.kind !== 'Namespace' || object.apiVersion !== 'v1') return false;
  const spec = field(object, 'spec');
  const held = isJsonObject(spec) ? ownValue(spec, 'finalizers') : undefined;
  return isJsonArray(held) && held.length > 0;
}

function marking(live: ApiObject, finalizers: readonly string[], at: string): ApiObject {
  const same =
    finalizers.length === (live.metadata.finalizers ?? []).length &&
    finalizers.every((name) => live.metadata.finalizers?.includes(name));
  if (live.metadata.deletionTimestamp !== undefined && same) return live;
  const { generation } = live.metadata;
  const marked = withMeta(live, {
    finalizers: finalizers.length === 0 ? undefined : finalizers,
    deletionTimestamp: live.metadata.deletionTimestamp ?? at,
    deletionGracePeriodSeconds: 0,
    generation:
      generation === undefined || live.metadata.deletionTimestamp !== undefined ? generation : generation + 1,
  });
  if (live.kind !== 'Namespace' || live.apiVersion !== 'v1') return marked;
  return { ...withMeta(marked, { deletionGracePeriodSeconds: undefined }), status: { phase: 'Terminating' } };
}

function finalizersFor(
  present: readonly string[],
  policy: DeleteOptions['propagationPolicy'],
): readonly string[] {
  if (policy === undefined) return present;
  const others = present.filter((name) => name !== ORPHAN && name !== FOREGROUND);
  switch (policy) {
    case 'Background':
      return others;
    case 'Orphan':
      return [...others, ORPHAN];
    case 'Foreground':
      return [...others, FOREGROUND];
  }
}

function checkPreconditions(
  { group }: Place,
  { kind, metadata }: ApiObject,
  { uid, resourceVersion }: RemovalOptions['preconditions'],
): void {
  const failed = (what: string, asked: string, is = '', whatHappened: string): ApiFailure =>
    conflict(
      { group, resource: kind }, // the API server puts the kind where a resource belongs
      metadata.name ?? '',
      `the ${what} in the precondition (${asked}) does not match the ${what} in record (${is}). The object might have been ${whatHappened}`,
    );
  if (uid !== undefined && uid !== metadata.uid) {
    throw failed('UID', uid, metadata.uid, 'deleted and then recreated');
  }
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion) {
    throw failed('ResourceVersion', resourceVersion, metadata.resourceVersion, 'modified');
  }
}
