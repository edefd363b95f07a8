import { isEqual, isJsonArray, isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { record, texts } from '../../machinery/fields.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import { createWorkQueue } from './work-queue.ts';

export interface NamespaceControllerOptions {
  readonly storage: Pick<Storage, 'get' | 'list' | 'watchAll'>;
  /** The places of all served namespaced resources. */
  readonly namespacedPlaces: () => readonly Place[];
  /**
   * Deletes the objects of one resource in a namespace with background propagation. @throws ApiFailure if a deletion
   * is rejected
   */
  readonly deleteAllIn: (place: Place, namespace: string) => void | Promise<void>;
  /**
   * Replaces the namespace, or removes it if it was marked and has no finalizers left, neither in metadata nor in
   * spec. @throws ApiFailure 404, 409
   */
  readonly replaceObject: (place: Place, object: ApiObject) => void | Promise<void>;
  /** RFC 3339 with second precision. */
  readonly now: () => string;
  readonly onError: (error: unknown) => void;
}

const NAMESPACES: Place = { group: '', resource: 'namespaces' };

/** In `spec.finalizers` of every namespace. */
const FINALIZER = 'kubernetes';

/**
 * Deletes the content of deleted namespaces, then the namespaces. Returns a function that stops the controller.
 * @see kubernetes/pkg/controller/namespace/deletion
 */
export function startNamespaceController(options: NamespaceControllerOptions): () => void {
  const { storage, onError } = options;
  const terminating = (name: string): ApiObject | undefined => {
    const namespace = storage.get(NAMESPACES, { namespace: '', name });
    return namespace?.metadata.deletionTimestamp === undefined ? undefined : namespace;
  };
  const { add, stop } = createWorkQueue(async (name) => {
    const namespace = terminating(name);
    if (namespace !== undefined) await empty(options, namespace, name);
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

async function empty(options: NamespaceControllerOptions, namespace: ApiObject, name: string): Promise<void> {
  const finalizers = finalizersOf(namespace);
  if (!finalizers.includes(FINALIZER)) return; // already done; the other finalizers have other owners
  const failures = await deleteContent(options, name);
  const remaining = { content: contentOf(options, name), failures: failures.map(({ message }) => message) };

  const shown = await showProgress(options, namespace, remaining);
  const [failure] = failures; // the status has the other failures
  if (failure !== undefined) throw failure;
  if (!shown || remaining.content.length > 0) return; // the next event enqueues it again
  const others = finalizers.filter((finalizer) => finalizer !== FINALIZER);
  const spec = { ...record(namespace, 'spec'), finalizers: others };
  await options.replaceObject(NAMESPACES, { ...namespace, spec });
}

const finalizersOf = (namespace: ApiObject) => texts(record(namespace, 'spec') ?? {}, 'finalizers');

/** The errors, one for each resource. Marked objects wait for their finalizers. */
async function deleteContent(
  options: NamespaceControllerOptions,
  namespace: string,
): Promise<readonly Error[]> {
  const failures: Error[] = [];
  for (const { place, objects } of contentOf(options, namespace)) {
    if (objects.every(({ metadata }) => metadata.deletionTimestamp !== undefined)) continue;
    try {
      await options.deleteAllIn(place, namespace);
    } catch (error) {
      failures.push(error instanceof Error ? error : new Error(String(error)));
    }
  }
  return failures;
}

function contentOf(
  { storage, namespacedPlaces }: NamespaceControllerOptions,
  namespace: string,
): Remaining['content'] {
  return namespacedPlaces()
    .map((place) => ({ place, objects: storage.list(place, { namespace }).items }))
    .filter(({ objects }) => objects.length > 0);
}

/**
 * Writes the remaining content into the status. Returns false if the status changed; the write then causes an event.
 */
async function showProgress(
  { replaceObject, now }: NamespaceControllerOptions,
  namespace: ApiObject,
  remaining: Remaining,
): Promise<boolean> {
  const before: JsonObject = record(namespace, 'status') ?? {};
  const status = terminatingStatus(before, remaining, now());
  if (isEqual(before, status)) return true;
  await replaceObject(NAMESPACES, { ...namespace, status });
  return false;
}

/** What prevents the deletion of a namespace. */
interface Remaining {
  /** Remaining objects by resource. */
  readonly content: readonly { readonly place: Place; readonly objects: readonly ApiObject[] }[];
  /** Errors of failed deletions. */
  readonly failures: readonly string[];
}

/**
 * The `status` of a namespace that is being deleted. A condition's time changes only with its status.
 * @see kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go
 */
function terminatingStatus(status: JsonObject, remaining: Remaining, now: string): JsonObject {
  const given = ownValue(status, 'conditions');
  const old = isJsonArray(given) ? given.filter(isJsonObject) : [];
  const conditions = conditionsOf(remaining).map((condition) => {
    const before = old.find(({ type }) => type === condition.type);
    const since = before?.status === condition.status ? before.lastTransitionTime : undefined;
    return { ...condition, lastTransitionTime: since ?? now };
  });
  const others = old.filter(({ type }) => !conditions.some((condition) => condition.type === type));
  return { ...status, phase: 'Terminating', conditions: [...conditions, ...others] };
}

function conditionsOf({ content, failures }: Remaining) {
  const resources = content.map(
    ({ place, objects }) => `${place.resource}.${place.group} has ${objects.length} resource instances`,
  );
  const finalizers = [...finalizerCounts(content)].map(
    ([name, count]) => `${name} in ${count} resource instances`,
  );
  const listed = (texts: readonly string[]) => texts.toSorted().join(', ');
  return [
    condition('NamespaceDeletionDiscoveryFailure', {
      ok: ['ResourcesDiscovered', 'All resources successfully discovered'],
    }),
    condition('NamespaceDeletionGroupVersionParsingFailure', {
      ok: ['ParsedGroupVersions', 'All legacy kube types successfully parsed'],
    }),
    condition('NamespaceDeletionContentFailure', {
      ok: ['ContentDeleted', 'All content successfully deleted, may be waiting on finalization'],
      ...(failures.length === 0
        ? {}
        : {
            bad: [
              'ContentDeletionFailed',
              `Failed to delete all resource types, ${failures.length} remaining: ${listed(failures)}`,
            ],
          }),
    }),
    condition('NamespaceContentRemaining', {
      ok: ['ContentRemoved', 'All content successfully removed'],
      ...(resources.length === 0
        ? {}
        : { bad: ['SomeResourcesRemain', `Some resources are remaining: ${listed(resources)}`] }),
    }),
    condition('NamespaceFinalizersRemaining', {
      ok: ['ContentHasNoFinalizers', 'All content-preserving finalizers finished'],
      ...(finalizers.length === 0
        ? {}
        : {
            bad: [
              'SomeFinalizersRemain',
              `Some content in the namespace has finalizers remaining: ${listed(finalizers)}`,
            ],
          }),
    }),
  ];
}

type ReasonAndMessage = readonly [reason: string, message: string];

/** True means that there is a problem. */
function condition(
  type: string,
  { ok, bad }: { readonly ok: ReasonAndMessage; readonly bad?: ReasonAndMessage },
) {
  const [reason, message] = bad ?? ok;
  return { type, status: bad === undefined ? 'False' : 'True', reason, message };
}

function finalizerCounts(content: Remaining['content']): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { objects } of content) {
    for (const name of objects.flatMap(({ metadata }) => metadata.finalizers ?? [])) {
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
  }
  return counts;
}
