/** Which objects refer to which: the references of policies, and owner references. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { readReferences } from '../../admission/policy/references/read-references.ts';
import {
  groupResourceName,
  refOf,
  splitApiVersion,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';

/** One field that names another object. */
export interface Link {
  readonly from: ObjectRef;
  readonly to: ObjectRef;
  /** e.g. `spec.disks[1].class`; `metadata.ownerReferences` for an owner. */
  readonly field: string;
  /** Undefined for an owner reference. */
  readonly by: { readonly policy: string; readonly reference: string } | undefined;
  /** An owner reference names one object by its uid; undefined: the name decides. */
  readonly uid?: string | undefined;
}

/** A kind whose objects are read. */
export type ReadKind = GroupResource & {
  readonly kind: string;
  readonly namespaced: boolean;
  /** The singular and short names. */
  readonly aliases?: readonly string[];
};

/** Why the answer may be incomplete. */
export interface Gap {
  readonly kind: GroupResource;
  /** The only namespace that could be read; undefined: none. */
  readonly readNamespace: string | undefined;
}

export interface RefsGraph {
  readonly kinds: readonly ReadKind[];
  readonly gaps: readonly Gap[];
  /** Undefined: the kind of the object could not be read, so whether it exists is not known. */
  readonly exists: (object: ObjectRef) => boolean | undefined;
  /** Whether the link names an earlier object, with another uid than the object that has the name now. */
  readonly isFormer: (link: Link) => boolean;
  /** In the order of fields. */
  readonly from: (object: ObjectRef) => readonly Link[];
  /** In the order of reading. */
  readonly to: (object: ObjectRef) => readonly Link[];
}

export interface GraphBuilder extends RefsGraph {
  /** The pages of a kind. Keeps no objects, only the links between them. */
  readonly add: (kind: ReadKind, objects: readonly KubeObject[]) => void;
  /** The objects of the kind could not be read. @param readNamespace the only namespace in which they could */
  readonly addUnread: (kind: GroupResource, readNamespace?: string) => void;
}

/**
 * @param policies with references
 * @param namespaces undefined: unknown, so that a namespaceSelector excludes nothing
 */
export function createGraph(
  policies: readonly CompiledPolicy[],
  kinds: readonly ReadKind[],
  namespaces: NamespaceLabels | undefined,
): GraphBuilder {
  /** The uids of all objects; undefined in files. */
  const known = new Map<string, string | undefined>();
  const gaps: Gap[] = [];
  const forward = new Map<string, Link[]>();
  const backward = new Map<string, Link[]>();
  const byKind = new Map(kinds.map((kind) => [`${kind.group}/${kind.kind}`, kind]));
  const put = (link: Link) => {
    push(forward, targetKey(link.from), link);
    push(backward, targetKey(link.to), link);
  };
  return {
    ...{ kinds, gaps },
    exists: (object) =>
      known.has(targetKey(object)) || (gaps.some((gap) => isIn(gap, object)) ? undefined : false),
    isFormer: ({ to, uid }) => {
      const now = known.get(targetKey(to));
      return uid !== undefined && now !== undefined && uid !== now;
    },
    from: (object) => forward.get(targetKey(object)) ?? [],
    to: (object) => backward.get(targetKey(object)) ?? [],
    addUnread: ({ group, resource }, readNamespace) => {
      gaps.push({ kind: { group, resource }, readNamespace });
    },
    add: (kind, objects) => {
      for (const object of objects) {
        const from = refOf(kind, object);
        known.set(targetKey(from), object.metadata?.uid);
        for (const link of policyLinks(policies, kind, from, object, namespaces)) put(link);
        for (const link of ownerLinks(from, object, byKind)) put(link);
      }
    },
  };
}

const isIn = ({ kind, readNamespace }: Gap, object: ObjectRef): boolean =>
  groupResourceName(kind) === groupResourceName(object) &&
  (readNamespace === undefined || object.namespace !== readNamespace);

function push(links: Map<string, Link[]>, key: string, link: Link): void {
  const list = links.get(key);
  if (list === undefined) links.set(key, [link]);
  else list.push(link);
}

function policyLinks(
  policies: readonly CompiledPolicy[],
  { group, resource }: GroupResource,
  from: ObjectRef,
  object: KubeObject,
  namespaces: NamespaceLabels | undefined,
): readonly Link[] {
  return policies
    .filter(({ match }) => match.apiGroups.includes(group) && match.resources.includes(resource))
    .filter(({ match }) =>
      namespaces === undefined
        ? isInScope({ match: { ...match, namespaceSelector: {} } }, object, new Map())
        : isInScope({ match }, object, namespaces),
    )
    .flatMap((policy) =>
      readReferences(policy, object, from.namespace).found.map(({ reference, field, target }) => ({
        ...{ from, field, to: target },
        by: { policy: policy.name, reference: reference.name },
      })),
    );
}

/** Owners of kinds that are not read are left out. */
function ownerLinks(
  from: ObjectRef,
  { metadata = {} }: KubeObject,
  kinds: ReadonlyMap<string, ReadKind>,
): readonly Link[] {
  return (metadata.ownerReferences ?? []).flatMap(({ apiVersion, kind, name, uid }) => {
    const owner = kinds.get(`${splitApiVersion(apiVersion).group}/${kind}`);
    if (owner === undefined) return [];
    const { group, resource, namespaced } = owner;
    const to = { group, resource, name, namespace: namespaced ? from.namespace : undefined };
    return [{ from, to, field: 'metadata.ownerReferences', by: undefined, uid }];
  });
}
