import { isJsonArray, isJsonObject, ownValue, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { Place } from '../../machinery/storage/stored.ts';

/** What prevents the deletion of a namespace. */
export interface Remaining {
  /** Remaining objects by resource. */
  readonly content: readonly { readonly place: Place; readonly objects: readonly ApiObject[] }[];
  /** Errors of failed deletions. */
  readonly failures: readonly string[];
}

/**
 * The `status` of a namespace that is being deleted. A condition's time changes only with its status.
 * @see kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go
 */
export function terminatingStatus(status: JsonObject, remaining: Remaining, now: string): JsonObject {
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
