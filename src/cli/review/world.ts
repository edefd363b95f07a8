/** The world that policies and handlers see: the objects of the snapshot and nothing else. */
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import type { GovernedIndex, World, Claims } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  keyOf,
  objectKey,
  refOf,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import { memoizeWeak, uniqueBy } from '../../json/objects.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { evidenceOfWindows } from '../../restore/evidence.ts';
import { openedForCluster } from '../../restore/opener.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { needsSummary, summarise } from '../../admission/policy/governed-summary.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';

export interface Contents {
  readonly find: (ref: ObjectRef) => KubeObject | undefined;
  readonly list: (kind: GroupResource) => readonly KubeObject[];
  /** Creates or replaces an object; undefined: removes it. */
  readonly put: (ref: ObjectRef, object: KubeObject | undefined) => void;
}

/** @param base objects that these contents overlay; it does not change */
export function createContents(base?: Pick<Contents, 'find' | 'list'>): Contents {
  const kinds = new Map<string, Map<string, KubeObject | undefined>>();
  return {
    find: (ref) => {
      const own = kinds.get(groupResourceName(ref));
      return own?.has(objectKey(ref)) === true ? own.get(objectKey(ref)) : base?.find(ref);
    },
    list: (kind) => {
      const own = kinds.get(groupResourceName(kind));
      const below = base?.list(kind) ?? [];
      if (own === undefined) return below;
      const others = below.filter((object) => !own.has(keyOf(object)));
      return [...others, ...own.values()].filter((object) => object !== undefined);
    },
    put: (ref, object) => {
      const name = groupResourceName(ref);
      const objects = kinds.get(name) ?? new Map<string, KubeObject | undefined>();
      kinds.set(name, objects.set(objectKey(ref), object));
    },
  };
}

export const RESTORE_WINDOWS: GroupResource = { group: 'gatehouse.dev', resource: 'restorewindows' };

/** The contents as policies see them: complete, so no read can be stale or fail. */
export function worldOf(
  { find, list }: Pick<Contents, 'find' | 'list'>,
  governed: GovernedIndex,
  now: Date,
): World {
  const read = (ref: ObjectRef) => Promise.resolve(find(ref));
  return {
    find,
    confirm: read,
    read,
    claims: NO_CLAIMS,
    governed,
    restoreEvidence: ({ userInfo, resource: { group, resource }, namespace }) => {
      const windows = list(RESTORE_WINDOWS) as readonly RestoreWindow[]; // validated by their CRD
      const open = evidenceOfWindows(
        windows.map(openedForCluster),
        userInfo,
        { group, resource, namespace },
        now,
      );
      return Promise.resolve(open.length === 0 ? undefined : { windows: open });
    },
  };
}

/** The contents as handlers see them. */
export function handlerWorldOf(
  { find, list }: Pick<Contents, 'find' | 'list'>,
  resolve: (kind: GroupResource) => { readonly namespaced: boolean } | undefined,
): HandlerWorld {
  return {
    isNamespaced: (kind) => {
      const resolved = resolve(kind);
      if (resolved !== undefined) return Promise.resolve(resolved.namespaced);
      const message = `the CustomResourceDefinition of ${groupResourceName(kind)} is missing: add it with --crds`;
      return Promise.reject(new Error(message));
    },
    find: () => undefined,
    select: () => undefined,
    read: (kind, place) => Promise.resolve(find({ ...kind, ...place })),
    query: (kind, { namespace }) =>
      Promise.resolve(
        list(kind).filter(({ metadata }) => namespace === undefined || metadata?.namespace === namespace),
      ),
  };
}

/** Indexes references and unique values. @param contents must not change afterwards: each policy is indexed once */
export function indexGoverned({ list }: Pick<Contents, 'list'>): GovernedIndex {
  const indexOf = memoizeWeak((policy: CompiledPolicy) => indexPolicy(policy, list));
  const refs = (entries: readonly { readonly ref: ObjectRef }[] = []) => entries.map(({ ref }) => ref);
  return {
    referrers: (target, policies) => {
      const found = policies.flatMap((policy) => refs(indexOf(policy).referrers.get(targetKey(target))));
      return uniqueBy(found, targetKey);
    },
    holders: (claim, policy) => refs(indexOf(policy).holders.get(claim)),
  };
}

/** The referrers of each target, by `targetKey`, and the holders of each claim, by its name. */
function indexPolicy(policy: CompiledPolicy, list: Contents['list']) {
  const objects = (needsSummary(policy) ? governed(policy) : []).flatMap((kind) =>
    list(kind).map((object) => ({ ref: refOf(kind, object), ...summarise([policy], kind, object) })),
  );
  const referrers = objects.flatMap(({ ref, targets }) => targets.map((key) => ({ key, ref })));
  const holders = objects.flatMap(({ ref, claims }) => claims.map((key) => ({ key, ref })));
  return { referrers: Map.groupBy(referrers, keyed), holders: Map.groupBy(holders, keyed) };
}

const keyed = ({ key }: { readonly key: string }): string => key;

/** Claims are not needed: the objects themselves show who holds a value. */
const NO_CLAIMS: Claims = {
  read: () => Promise.resolve(undefined),
  create: (claim) => Promise.resolve(claim),
  replace: (claim) => Promise.resolve(claim),
  remove: () => Promise.resolve('removed'),
  settleMs: 0,
  reserve: () => ({ refused: [], written: () => undefined }),
  hasNamespace: () => Promise.resolve(true),
};
