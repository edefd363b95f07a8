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
}

/** A kind whose objects are read. */
export type ReadKind = GroupResource & { readonly kind: string; readonly namespaced: boolean };

export interface RefsGraph {
  readonly kinds: readonly ReadKind[];
  readonly has: (object: ObjectRef) => boolean;
  /** Undefined: the kind of the object could not be read, so whether it exists is not known. */
  readonly exists: (object: ObjectRef) => boolean | undefined;
  /** In the order of fields. */
  readonly from: (object: ObjectRef) => readonly Link[];
  /** In the order of reading. */
  readonly to: (object: ObjectRef) => readonly Link[];
}

export interface GraphBuilder extends RefsGraph {
  /** The pages of a kind. Keeps no objects, only the links between them. */
  readonly add: (kind: ReadKind, objects: readonly KubeObject[]) => void;
  /** The objects of the kind could not be read. */
  readonly addUnread: (kind: ReadKind) => void;
}

/** @param policies with references */
export function createGraph(
  policies: readonly CompiledPolicy[],
  kinds: readonly ReadKind[],
  namespaces: NamespaceLabels,
): GraphBuilder {
  const known = new Set<string>();
  const unread = new Set<string>();
  const forward = new Map<string, Link[]>();
  const backward = new Map<string, Link[]>();
  const byKind = new Map(kinds.map((kind) => [`${kind.group}/${kind.kind}`, kind]));
  const put = (link: Link) => {
    push(forward, targetKey(link.from), link);
    push(backward, targetKey(link.to), link);
  };
  return {
    kinds,
    has: (object) => known.has(targetKey(object)),
    exists: (object) =>
      known.has(targetKey(object)) || (unread.has(groupResourceName(object)) ? undefined : false),
    from: (object) => forward.get(targetKey(object)) ?? [],
    to: (object) => backward.get(targetKey(object)) ?? [],
    addUnread: (kind) => unread.add(groupResourceName(kind)),
    add: (kind, objects) => {
      for (const object of objects) {
        const from = refOf(kind, object);
        known.add(targetKey(from));
        for (const link of policyLinks(policies, kind, from, object, namespaces)) put(link);
        for (const link of ownerLinks(from, object, byKind)) put(link);
      }
    },
  };
}

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
  namespaces: NamespaceLabels,
): readonly Link[] {
  return policies
    .filter(({ match }) => match.apiGroups.includes(group) && match.resources.includes(resource))
    .filter((policy) => isInScope(policy, object, namespaces))
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
  return (metadata.ownerReferences ?? []).flatMap(({ apiVersion, kind, name }) => {
    const owner = kinds.get(`${splitApiVersion(apiVersion).group}/${kind}`);
    if (owner === undefined) return [];
    const { group, resource, namespaced } = owner;
    const to = { group, resource, name, namespace: namespaced ? from.namespace : undefined };
    return [{ from, to, field: 'metadata.ownerReferences', by: undefined }];
  });
}
