/** The world that policies and handlers see: the objects of the snapshot and nothing else. */
import { ownValue } from '../../json/json.ts';
import { NAMESPACE_NAME_LABEL } from '../../json/label-selector.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import type { GovernedIndex, World, Claims } from '../../admission/policy/world.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { evidenceOfWindows } from '../../restore/evidence.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { needsSummary, summarise } from '../../admission/policy/governed-summary.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { governed } from '../../runtime/policies/policies.ts';

/** An object and its place in the cluster. */
export interface Stored {
  readonly ref: ObjectRef;
  readonly object: KubeObject;
}

export interface Contents {
  readonly find: (ref: ObjectRef) => KubeObject | undefined;
  readonly list: (kind: GroupResource) => readonly KubeObject[];
  /** Creates or replaces an object. */
  readonly put: (stored: Stored) => void;
}

/** @param base objects that these contents overlay; it does not change */
export function createContents(base?: Pick<Contents, 'find' | 'list'>): Contents {
  const kinds = new Map<string, Map<string, KubeObject>>();
  return {
    find: (ref) => kinds.get(groupResourceName(ref))?.get(objectKey(ref)) ?? base?.find(ref),
    list: (kind) => {
      const own = kinds.get(groupResourceName(kind));
      const below = base?.list(kind) ?? [];
      if (own === undefined) return below;
      return [...below.filter(({ metadata }) => !own.has(objectKey(metadata ?? {}))), ...own.values()];
    },
    put: ({ ref, object }) => {
      const name = groupResourceName(ref);
      const objects = kinds.get(name) ?? new Map<string, KubeObject>();
      kinds.set(name, objects.set(objectKey(ref), object));
    },
  };
}

/** A Namespace with only its name and the label that Kubernetes sets. */
export function namespaceNamed(name: string): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { [NAMESPACE_NAME_LABEL]: name } },
  };
}

/**
 * The contents while one object is written.
 *
 * @param self the object before the write: undefined if it is new
 */
export function contentsBefore(
  contents: Contents,
  self: { readonly ref: ObjectRef; readonly object: KubeObject | undefined },
): Pick<Contents, 'find' | 'list'> {
  const isSelf = (ref: ObjectRef) =>
    groupResourceName(ref) === groupResourceName(self.ref) && objectKey(ref) === objectKey(self.ref);
  return {
    find: (ref) => (isSelf(ref) ? self.object : contents.find(ref)),
    list: (kind) => {
      const all = contents.list(kind);
      if (groupResourceName(kind) !== groupResourceName(self.ref)) return all;
      const others = all.filter(({ metadata }) => objectKey(metadata ?? {}) !== objectKey(self.ref));
      return self.object === undefined ? others : [...others, self.object];
    },
  };
}

const RESTORE_WINDOWS: GroupResource = { group: 'gatehouse.dev', resource: 'restorewindows' };

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
      return Promise.resolve(evidenceOfWindows(windows, userInfo, { group, resource, namespace }, now));
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
        list(kind).filter((object) => namespace === undefined || ownNamespace(object) === namespace),
      ),
  };
}

const ownNamespace = ({ metadata }: KubeObject): unknown =>
  metadata === undefined ? undefined : ownValue(metadata, 'namespace');

interface PolicyIndex {
  /** By `targetKey`. */
  readonly referrers: ReadonlyMap<string, readonly ObjectRef[]>;
  /** By the name of the claim. */
  readonly holders: ReadonlyMap<string, readonly ObjectRef[]>;
}

/** Indexes references and unique values. @param contents must not change afterwards: each policy is indexed once */
export function indexGoverned({ list }: Pick<Contents, 'list'>): GovernedIndex {
  const known = new Map<CompiledPolicy, PolicyIndex>();
  const indexOf = (policy: CompiledPolicy): PolicyIndex => {
    const before = known.get(policy) ?? indexPolicy(policy, list);
    known.set(policy, before);
    return before;
  };
  return {
    referrers: (target, policies) => {
      const found = policies.flatMap((policy) => indexOf(policy).referrers.get(targetKey(target)) ?? []);
      return [...new Map(found.map((ref) => [targetKey(ref), ref])).values()];
    },
    holders: (claim, policy) => indexOf(policy).holders.get(claim) ?? [],
  };
}

function indexPolicy(policy: CompiledPolicy, list: Contents['list']): PolicyIndex {
  const referrers = new Map<string, ObjectRef[]>();
  const holders = new Map<string, ObjectRef[]>();
  const add = (map: Map<string, ObjectRef[]>, key: string, ref: ObjectRef) => {
    const listed = map.get(key);
    if (listed === undefined) map.set(key, [ref]);
    else listed.push(ref);
  };
  if (!needsSummary(policy)) return { referrers, holders };
  for (const kind of governed(policy)) {
    for (const object of list(kind)) {
      const { name = '', namespace } = object.metadata ?? {};
      const ref = { ...kind, namespace, name };
      const { targets, claims } = summarise([policy], kind, object);
      for (const target of targets) add(referrers, target, ref);
      for (const claim of claims) add(holders, claim, ref);
    }
  }
  return { referrers, holders };
}

/** Claims are not needed: the objects themselves show who holds a value. */
export const NO_CLAIMS: Claims = {
  read: () => Promise.resolve(undefined),
  create: (claim) => Promise.resolve(claim),
  replace: (claim) => Promise.resolve(claim),
  remove: () => Promise.resolve('removed'),
  settleMs: 0,
};
