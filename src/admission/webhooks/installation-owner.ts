/** A ClusterRole of deploy/base owns what the leader writes for admission, so every way to remove Gatehouse removes the webhooks. */
import { isDeepStrictEqual } from 'node:util';

import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';

export const INSTALLATION_ROLE = 'gatehouse-installation';

const ROLE = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name: INSTALLATION_ROLE };

export const installationOwner = (uid: string): OwnerReference => ({ ...ROLE, uid });

/** Without an owner, keeps the references, because the garbage collector still needs them. */
export function ownedBy<T extends KubeObject>(object: T, owner: OwnerReference | undefined): T {
  if (owner === undefined) return object;
  const { metadata } = object;
  return {
    ...object,
    metadata: { ...metadata, ownerReferences: withReference(metadata?.ownerReferences, owner) },
  };
}

type References = readonly OwnerReference[];

/** Replaces a reference to an earlier object of the same name, whose uid is stale. Keeps all other references. */
function withReference(references: References | undefined, wanted: OwnerReference): References {
  const all = references ?? [];
  const same = all.filter((one) => isSameSubject(one, wanted));
  if (same.length === 1 && isDeepStrictEqual(same[0], wanted)) return all;
  return [...all.filter((one) => !isSameSubject(one, wanted)), wanted];
}

const isSameSubject = (one: OwnerReference, other: OwnerReference): boolean =>
  one.apiVersion === other.apiVersion && one.kind === other.kind && one.name === other.name;

export const isOwnedByInstallation = ({ metadata }: KubeObject): boolean =>
  metadata?.ownerReferences?.some((one) => isSameSubject(one, installationOwner(''))) === true;

/** Makes Gatehouse's namespace own the role; undefined: no change. Argo CD doesn't delete objects with owners: its role has none. */
export function roleReferences(role: KubeObject, namespace: KubeObject): References | undefined {
  const { ownerReferences: before } = role.metadata ?? {};
  const { name = '', uid = '', deletionTimestamp } = namespace.metadata ?? {};
  const wanted: OwnerReference = { apiVersion: 'v1', kind: 'Namespace', name, uid };
  if (deletionTimestamp !== undefined) return undefined;
  const after = isOfArgo(role)
    ? before?.filter((one) => !isSameSubject(one, wanted))
    : withReference(before, wanted);
  return isDeepStrictEqual(before ?? [], after ?? []) ? undefined : after;
}

/** Argo CD's tracking annotation or label. Helm also sets Argo CD's other label, `app.kubernetes.io/instance`. */
const isOfArgo = ({ metadata }: KubeObject): boolean =>
  metadata?.annotations?.['argocd.argoproj.io/tracking-id'] !== undefined ||
  metadata?.labels?.['argocd.argoproj.io/instance'] !== undefined;
