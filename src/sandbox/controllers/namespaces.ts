import { isEqual, type JsonObject } from '../../json/json.ts';
import { timestamp, type ApiObject } from '../../machinery/api-object.ts';
import { records, spec, status, texts } from '../../machinery/fields.ts';
import type { Place } from '../../machinery/storage/stored.ts';
import type { Api } from '../pipeline/context.ts';
import { ask, replaceOrRemove } from './ask.ts';
import { createWorkQueue } from './work-queue.ts';

const NAMESPACES: Place = { group: '', resource: 'namespaces' };

/** In `spec.finalizers` of every namespace. */
const FINALIZER = 'kubernetes';

/**
 * Deletes the content of deleted namespaces, then the namespaces. Returns a function that stops the controller.
 * @see kubernetes/pkg/controller/namespace/deletion
 */
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
  const failures = await deleteContent(api, name);
  const content = contentOf(api, name);

  const before = status(namespace);
  const messages = failures.map(({ message }) => message);
  const shown = terminatingStatus(before, { content, failures: messages }, timestamp(api.now()));
  const isShown = isEqual(before, shown);
  // The write causes an event, which enqueues the namespace again.
  if (!isShown) replaceOrRemove(api.storage, NAMESPACES, { ...namespace, status: shown });
  const [failure] = failures; // the status has the other failures
  if (failure !== undefined) throw failure;
  if (!isShown || content.length > 0) return; // the next event enqueues it again
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

const contentOf = ({ storage, registry }: Api, namespace: string): Remaining['content'] =>
  registry
    .all()
    .filter(({ namespaced, version, storageVersion }) => namespaced && version === storageVersion)
    .map((place) => ({ place, objects: storage.list(place, { namespace }).items }))
    .filter(({ objects }) => objects.length > 0);

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
function terminatingStatus(before: JsonObject, remaining: Remaining, now: string): JsonObject {
  const old = records(before, 'conditions');
  const conditions = conditionsOf(remaining).map((condition) => {
    const known = old.find(({ type }) => type === condition.type);
    const since = known?.status === condition.status ? known.lastTransitionTime : undefined;
    return { ...condition, lastTransitionTime: since ?? now };
  });
  const others = old.filter(({ type }) => !conditions.some((condition) => condition.type === type));
  return { ...before, phase: 'Terminating', conditions: [...conditions, ...others] };
}

function conditionsOf({ content, failures }: Remaining) {
  const resources = content.map(
    ({ place, objects }) => `${place.resource}.${place.group} has ${objects.length} resource instances`,
  );
  const finalizers = content.flatMap(({ objects }) =>
    objects.flatMap(({ metadata }) => metadata.finalizers ?? []),
  );
  const held = [...Map.groupBy(finalizers, (name) => name)].map(
    ([name, { length }]) => `${name} in ${length} resource instances`,
  );
  return [
    condition('NamespaceDeletionDiscoveryFailure', [
      'ResourcesDiscovered',
      'All resources successfully discovered',
    ]),
    condition('NamespaceDeletionGroupVersionParsingFailure', [
      'ParsedGroupVersions',
      'All legacy kube types successfully parsed',
    ]),
    condition(
      'NamespaceDeletionContentFailure',
      ['ContentDeleted', 'All content successfully deleted, may be waiting on finalization'],
      [
        'ContentDeletionFailed',
        `Failed to delete all resource types, ${failures.length} remaining`,
        failures,
      ],
    ),
    condition(
      'NamespaceContentRemaining',
      ['ContentRemoved', 'All content successfully removed'],
      ['SomeResourcesRemain', 'Some resources are remaining', resources],
    ),
    condition(
      'NamespaceFinalizersRemaining',
      ['ContentHasNoFinalizers', 'All content-preserving finalizers finished'],
      ['SomeFinalizersRemain', 'Some content in the namespace has finalizers remaining', held],
    ),
  ];
}

/** True means that there is a problem: the list of what is wrong is not empty. */
function condition(
  type: string,
  [okReason, okMessage]: readonly [reason: string, message: string],
  [reason, message, wrong]: readonly [string, string, readonly string[]] = ['', '', []],
) {
  return wrong.length === 0
    ? { type, status: 'False', reason: okReason, message: okMessage }
    : { type, status: 'True', reason, message: `${message}: ${wrong.toSorted().join(', ')}` };
}
