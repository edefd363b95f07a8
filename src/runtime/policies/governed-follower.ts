/** One watch of a governed kind. It keeps only a summary of each object. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summaryKey, summarise, type GovernedSummary } from '../../admission/policy/governed-summary.ts';
import type { KubeObject, GroupResource, ObjectRef } from '../../json/kube-object.ts';
import type { Change } from '../../kube/watch/change.ts';
import type { Resource } from '../../kube/object.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

/** A governed object as the store holds it. */
export interface GovernedObject extends KubeObject, Partial<GovernedSummary> {}

export interface Follower {
  readonly resource: Resource;
  /** The `summaryKey` of each policy that the summaries cover. */
  readonly needs: ReadonlySet<string>;
  readonly startedAt: number;
  readonly watched: Watched<GovernedObject>;
  readonly refs: (index: 'targets' | 'claims', value: string) => readonly ObjectRef[];
  readonly stop: () => void;
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
  const own = new AbortController();
  const watched = watch<GovernedObject>(
    context,
    {
      resource,
      indexes: INDEXES,
      transform: (object) => toGoverned(policies, resource, object, ownNamespace),
      onChange: (_key, change) => {
        onChange(resource, change);
      },
    },
    AbortSignal.any([signal, own.signal]),
  );
  return {
    resource,
    needs: new Set(policies.map(summaryKey)),
    startedAt: performance.now(),
    watched,
    refs: (index, value) => watched.store.byIndex(index, value).map((object) => refOf(resource, object)),
    stop: () => {
      own.abort();
    },
  };
}

export function refOf({ group, resource }: GroupResource, { metadata = {} }: KubeObject): ObjectRef {
  return { group, resource, namespace: metadata.namespace, name: metadata.name ?? '' };
}

const NOTHING: GovernedSummary = { targets: [], claims: [] };

function toGoverned(
  policies: readonly CompiledPolicy[],
  resource: Resource,
  object: GovernedObject,
  ownNamespace: string,
): GovernedObject {
  const { name, namespace, uid, resourceVersion } = object.metadata ?? {};
  return {
    metadata: {
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
    },
    // The webhooks exempt Gatehouse's own namespace.
    ...(namespace === ownNamespace ? NOTHING : summarise(policies, resource, object)),
  };
}
