/** How far a review of what is stored has come. */
import type { CompiledPolicy } from '../../../admission/policy/compile.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import { governed } from '../../../runtime/policies/policies.ts';
import type { StoredObjects } from '../../../runtime/policies/stored-objects.ts';
import type { ProgressLine } from '../../terminal/progress.ts';

export interface FollowedPages {
  /** So many objects of a kind have come, and are judged next. */
  readonly onPage: (resource: GroupResource, objects: number) => void;
}

/** Asks how much there is to do, if anybody looks on. Policies are reviewed one after the other, so a kind counts for each. */
export async function followPages(
  policies: readonly CompiledPolicy[],
  { count }: Pick<StoredObjects, 'count'>,
  line: ProgressLine,
  signal: AbortSignal,
): Promise<FollowedPages> {
  const total = line.isShown ? await totalOf(policies.flatMap(governed), count, signal) : undefined;
  let done = 0;
  return {
    onPage: (resource, objects) => {
      line.show({ what: groupResourceName(resource), done, total });
      done += objects;
    },
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  count: StoredObjects['count'],
  signal: AbortSignal,
): Promise<number | undefined> {
  const counts = new Map<string, Promise<number | undefined>>();
  for (const resource of resources) {
    const name = groupResourceName(resource);
    // What cannot be read is said by the review itself.
    if (!counts.has(name))
      counts.set(
        name,
        count(resource, signal).catch(() => 0),
      );
  }
  let total = 0;
  for (const resource of resources) {
    const one = await counts.get(groupResourceName(resource));
    if (one === undefined) return undefined;
    total += one;
  }
  return total;
}
