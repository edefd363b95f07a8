/** One watch of a governed kind. It keeps only a summary of each object. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summaryKey, summarise, type GovernedSummary } from '../../admission/policy/governed-summary.ts';
import { refOf, type KubeObject, type GroupResource, type ObjectRef } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import type { Change } from '../../kube/watch/change.ts';
import type { Resource } from '../../kube/object.ts';
import { watch, type WatchContext, type Watching } from '../watch.ts';

/** A governed object as the store holds it. */
export interface GovernedObject extends KubeObject, Partial<GovernedSummary> {}

export interface Follower {
  readonly resource: Resource;
  /** The `summaryKey` of each policy that the summaries cover. */
  readonly needs: ReadonlySet<string>;
  readonly startedAt: number;
  readonly watched: Watching<GovernedObject>;
  readonly refs: (index: 'targets' | 'claims', value: string) => readonly ObjectRef[];
}

const INDEXES = {
  targets: ({ targets = [] }: GovernedObject) => targets,
  claims: ({ claims = [] }: GovernedObject) => claims,
};

export function startFollower(
  context: WatchContext,
  resource: Resource,
  policies: readonly CompiledPolicy[],
  ownNamespace: string,
  onChange: (kind: GroupResource, change: Change<GovernedObject>) => void,
  signal: AbortSignal,
): Follower {
  const watched = watch<GovernedObject>(
    context,
    {
      resource,
      indexes: INDEXES,
      transform: (object) => toGoverned(policies, resource, object, ownNamespace),
      onChange: (_key, change) => onChange(resource, change),
    },
    signal,
  );
  return {
    resource,
    needs: new Set(policies.map(summaryKey)),
    startedAt: performance.now(),
    watched,
    refs: (index, value) => watched.store.byIndex(index, value).map((object) => refOf(resource, object)),
  };
}

const NOTHING: GovernedSummary = { targets: [], claims: [] };

function toGoverned(
  policies: readonly CompiledPolicy[],
  resource: Resource,
  object: GovernedObject,
  ownNamespace: string,
): GovernedObject {
  const metadata = pick(object.metadata ?? {}, 'name', 'namespace', 'uid', 'resourceVersion');
  return {
    metadata,
    // The webhooks exempt Gatehouse's own namespace.
    ...(metadata.namespace === ownNamespace ? NOTHING : summarise(policies, resource, object)),
  };
}
