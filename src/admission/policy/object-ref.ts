import { groupResourceName, type GroupResource, type ObjectRef } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import type { AdmissionRequest } from '../review/request.ts';

export const NAMESPACES: GroupResource = { group: '', resource: 'namespaces' };

export const namespaceRefOf = (name: string): ObjectRef => ({ ...NAMESPACES, namespace: undefined, name });

export function targetKey(target: ObjectRef): string {
  return `${groupResourceName(target)}/${target.namespace ?? ''}/${target.name}`;
}

/** e.g. `datacenters.infra.example.com "fra1" in namespace "store"` */
export function describeRef(ref: ObjectRef): string {
  const where = ref.namespace === undefined ? '' : ` in namespace ${quote(ref.namespace)}`;
  return `${groupResourceName(ref)} ${quote(ref.name)}${where}`;
}

export const paramsNotFound = (params: ObjectRef): string =>
  `${describeRef(params)} not found; create it, because the policy reads its values`;

export function requestedObject({ resource, namespace, name = '' }: AdmissionRequest): ObjectRef {
  return { group: resource.group, resource: resource.resource, namespace, name };
}

/** Messages end up in logs and Events, which must not contain the data of a Secret. */
export const isSecret = ({ group, resource }: GroupResource): boolean =>
  group === '' && resource === 'secrets';
