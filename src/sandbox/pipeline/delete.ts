import { toTimestamp } from '../../json/kube-object.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { conflict, forbidden, notFound } from '../../machinery/failure.ts';
import { spec, texts } from '../../machinery/fields.ts';
import { type Key, type Place, placeOf } from '../../machinery/storage/stored.ts';
import {
  attributesOf,
  converted,
  objectAnswer,
  storedObject,
  type Answer,
  type Api,
  type Call,
} from './context.ts';
import { deleteOptionsOf, type DeleteOptions } from './options.ts';
import { acceptsOf } from './read.ts';

/** Finalizers that request work from the garbage collector. */
export const ORPHAN = 'orphan';
export const FOREGROUND = 'foregroundDeletion';

const PROTECTED_NAMESPACES = new Set(['default', 'kube-system', 'kube-public']);

export async function deleteOne(call: Call): Promise<Answer> {
  const { api, request, info, type } = call;
  const options = deleteOptionsOf(request);
  if (type.group === '' && type.resource === 'namespaces' && PROTECTED_NAMESPACES.has(info.name))
    throw forbidden(type, info.name, 'this namespace may not be deleted');
  const attributes = {
    ...attributesOf(call, options.dryRun),
    operation: 'DELETE',
    oldObject: await converted(api, storedObject(call), type),
    options: options.json,
  } as const;
  await api.admission.mutate(attributes, (object) => object, request.notes);
  await api.admission.validate(attributes, request.notes);
  const outcome = removeOrMark(api, placeOf(type), info, options);
  if (outcome === undefined) throw notFound(type, info.name);
  return outcome.kind === 'removed'
    ? deletedAnswer(call, outcome.object)
    : objectAnswer(type, await converted(api, outcome.object, type));
}

function deletedAnswer({ type: { group, resource } }: Call, { metadata }: ApiObject): Answer {
  const { name = '', uid = '' } = metadata;
  const details = { name, ...(group === '' ? {} : { group }), kind: resource, uid };
  return {
    kind: 'status',
    status: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details, code: 200 },
  };
}

export async function deleteCollection(call: Call): Promise<Answer> {
  const { api, request, info, type } = call;
  const options = deleteOptionsOf(request);
  const accepts = acceptsOf(request.query, type);
  const page = api.storage.list(placeOf(type), {
    ...(info.namespace === '' ? {} : { namespace: info.namespace }),
    ...(accepts === undefined ? {} : { accepts }),
  });
  const attributes = {
    ...attributesOf(call, options.dryRun),
    operation: 'DELETE',
    options: options.json,
  } as const;
  await api.admission.mutate(attributes, (object) => object, request.notes);
  const deleted: ApiObject[] = [];
  for (const stored of page.items) {
    const live = await converted(api, stored, type);
    await api.admission.validate({ ...attributes, oldObject: live }, request.notes);
    const key = { namespace: live.metadata.namespace ?? '', name: live.metadata.name ?? '' };
    const outcome = removeOrMark(api, placeOf(type), key, options);
    if (outcome !== undefined) deleted.push(outcome.kind === 'removed' ? live : outcome.object);
  }
  return { kind: 'list', type, page: { items: deleted, revision: api.storage.revision() } };
}

type RemovalOptions = Pick<DeleteOptions, 'dryRun' | 'propagationPolicy' | 'preconditions'>;

/** Removes the object, or marks it if it has finalizers (registry.Store.Delete); undefined if it does not exist. */
export function removeOrMark(
  { storage, registry, now }: Pick<Api, 'storage' | 'registry' | 'now'>,
  place: Place,
  key: Key,
  { dryRun, propagationPolicy, preconditions }: RemovalOptions,
): { readonly kind: 'removed' | 'marked'; readonly object: ApiObject } | undefined {
  const live = storage.get(place, key);
  if (live === undefined) return undefined;
  checkPreconditions(place, live, preconditions);
  const strategy = registry.stored(place.group, place.resource)?.strategy;
  const isFirst = live.metadata.deletionTimestamp === undefined;
  const prepared = isFirst ? (strategy?.beforeDelete?.(live, toTimestamp(now())) ?? live) : live;
  const finalizers = finalizersFor(prepared.metadata.finalizers ?? [], propagationPolicy);
  const version = live.metadata.resourceVersion ?? '';
  const marked = marking(prepared, finalizers, toTimestamp(now()));
  if (isDone(marked)) {
    return { kind: 'removed', object: dryRun ? live : storage.remove(place, key, version) };
  }
  if (marked === prepared || dryRun) return { kind: 'marked', object: marked };
  return { kind: 'marked', object: storage.replace(place, marked, version) };
}

/** Whether the object is marked for deletion and its finalizers are gone. */
export function isDone(object: ApiObject): boolean {
  const { deletionTimestamp, finalizers = [] } = object.metadata;
  // A Namespace is also held by `spec.finalizers` until it is empty.
  const isHeld = isNamespace(object) && texts(spec(object), 'finalizers').length > 0;
  return deletionTimestamp !== undefined && finalizers.length === 0 && !isHeld;
}

const isNamespace = ({ kind, apiVersion }: ApiObject) => kind === 'Namespace' && apiVersion === 'v1';

function marking(live: ApiObject, finalizers: readonly string[], at: string): ApiObject {
  const { deletionTimestamp, generation, finalizers: before = [] } = live.metadata;
  const same = finalizers.length === before.length && finalizers.every((name) => before.includes(name));
  if (deletionTimestamp !== undefined && same) return live;
  const marked = withMeta(live, {
    finalizers: finalizers.length === 0 ? undefined : finalizers,
    deletionTimestamp: deletionTimestamp ?? at,
    deletionGracePeriodSeconds: 0,
    generation: generation === undefined || deletionTimestamp !== undefined ? generation : generation + 1,
  });
  if (!isNamespace(live)) return marked;
  return { ...withMeta(marked, { deletionGracePeriodSeconds: undefined }), status: { phase: 'Terminating' } };
}

const FINALIZERS = { Background: [], Orphan: [ORPHAN], Foreground: [FOREGROUND] } as const;

function finalizersFor(
  present: readonly string[],
  policy: DeleteOptions['propagationPolicy'],
): readonly string[] {
  if (policy === undefined) return present;
  return [...present.filter((name) => name !== ORPHAN && name !== FOREGROUND), ...FINALIZERS[policy]];
}

function checkPreconditions(
  { group }: Place,
  { kind, metadata }: ApiObject,
  { uid, resourceVersion }: RemovalOptions['preconditions'],
): void {
  const refuse = (what: string, asked: string | undefined, is = '', whatHappened: string) => {
    if (asked === undefined || asked === is) return;
    throw conflict(
      { group, resource: kind }, // the API server puts the kind where a resource belongs
      metadata.name ?? '',
      `the ${what} in the precondition (${asked}) does not match the ${what} in record (${is}). The object might have been ${whatHappened}`,
    );
  };
  refuse('UID', uid, metadata.uid, 'deleted and then recreated');
  refuse('ResourceVersion', resourceVersion, metadata.resourceVersion, 'modified');
}
