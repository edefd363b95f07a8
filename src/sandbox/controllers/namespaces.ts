import { isEqual } from '../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { spec, status, texts } from '../../machinery/fields.ts';
import type { Place } from '../../machinery/storage/stored.ts';
import type { Api } from '../pipeline/context.ts';
import { ask, replaceOrRemove } from './ask.ts';
import { createWorkQueue } from './work-queue.ts';

const NAMESPACES: Place = { group: '', resource: 'namespaces' };

const FINALIZER = 'kubernetes';

/** Deletes the content of deleted namespaces, then the namespaces (pkg/controller/namespace/deletion). */
export function startNamespaceController(api: Api, onError: (error: unknown) => void): () => void {
  const { storage } = api;
  const terminating = (name: string): ApiObject | undefined => {
    const namespace = storage.get(NAMESPACES, { namespace: '', name });
    return namespace?.metadata.deletionTimestamp === undefined ? undefined : namespace;
  };
  const { add, stop } = createWorkQueue(async (name) => {
    const namespace = terminating(name);
    if (namespace !== undefined) await empty(api, namespace, name);
  }, onError);

  const unwatch = storage.watchAll((place, { object: { metadata } }) => {
    const isNamespace = place.resource === NAMESPACES.resource && place.group === NAMESPACES.group;
    const name = (isNamespace ? metadata.name : metadata.namespace) ?? '';
    if (name !== '' && terminating(name) !== undefined) add(name);
  });
  for (const { metadata } of storage.list(NAMESPACES).items) {
    if (metadata.deletionTimestamp !== undefined) add(metadata.name ?? '');
  }
  return () => {
    unwatch();
    stop();
  };
}

async function empty(api: Api, namespace: ApiObject, name: string): Promise<void> {
  const finalizers = texts(spec(namespace), 'finalizers');
  if (!finalizers.includes(FINALIZER)) return; // already done; the other finalizers have other owners
  const [failure] = await deleteContent(api, name);
  const shown = { ...status(namespace), phase: 'Terminating' };
  const isShown = isEqual(status(namespace), shown);
  // The write causes an event, which enqueues the namespace again.
  if (!isShown) replaceOrRemove(api.storage, NAMESPACES, { ...namespace, status: shown });
  if (failure !== undefined) throw failure;
  if (!isShown || contentOf(api, name).length > 0) return; // the next event enqueues it again
  const others = finalizers.filter((finalizer) => finalizer !== FINALIZER);
  const emptied = { ...namespace, spec: { ...spec(namespace), finalizers: others } };
  replaceOrRemove(api.storage, NAMESPACES, emptied);
}

/** The errors, one for each resource. Marked objects wait for their finalizers. */
async function deleteContent(api: Api, namespace: string): Promise<readonly Error[]> {
  const failures: Error[] = [];
  for (const { place, objects } of contentOf(api, namespace)) {
    if (objects.every(({ metadata }) => metadata.deletionTimestamp !== undefined)) continue;
    try {
      await ask(api, 'namespace-controller', 'deletecollection', place, { namespace, name: '' });
    } catch (error) {
      failures.push(error instanceof Error ? error : new Error(String(error)));
    }
  }
  return failures;
}

const contentOf = ({ storage, registry }: Api, namespace: string) =>
  registry
    .all()
    .filter(({ namespaced, version, storageVersion }) => namespaced && version === storageVersion)
    .map((place) => ({ place, objects: storage.list(place, { namespace }).items }))
    .filter(({ objects }) => objects.length > 0);
