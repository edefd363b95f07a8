/** Objects whose owner references are never linked again: controllers adopt them by labels, and delete unexpected ones. */
import { splitApiVersion, type GroupResource, type OwnerReference } from '../json/kube-object.ts';

const ADOPTED_BY_LABELS: readonly GroupResource[] = [
  { group: '', resource: 'pods' },
  { group: '', resource: 'events' },
  { group: 'events.k8s.io', resource: 'events' },
  { group: 'apps', resource: 'replicasets' },
  { group: 'apps', resource: 'controllerrevisions' },
  { group: 'discovery.k8s.io', resource: 'endpointslices' },
  { group: 'coordination.k8s.io', resource: 'leases' },
];

export function mayRecordOwners({ group, resource }: GroupResource): boolean {
  return !ADOPTED_BY_LABELS.some((one) => one.group === group && one.resource === resource);
}

/** Whether this owner may be linked again: a CronJob counts the Jobs that it owns, and deletes the oldest. */
export function mayRelinkOwner(
  child: GroupResource,
  owner: Pick<OwnerReference, 'apiVersion' | 'kind'>,
): boolean {
  if (!mayRecordOwners(child)) return false;
  const isJob = child.group === 'batch' && child.resource === 'jobs';
  return !(isJob && splitApiVersion(owner.apiVersion).group === 'batch' && owner.kind === 'CronJob');
}
