/**
 * Built-in kinds that the sandbox does not serve: only their names, so that policies can refer to e.g. `statefulsets`.
 * Their fields are not validated.
 *
 * @see `kubectl api-resources` of Kubernetes 1.37
 */
export interface KindNames {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  /** The plural. */
  readonly resource: string;
  readonly namespaced: boolean;
}

const NAMESPACED: Readonly<Record<string, readonly string[]>> = {
  v1: ['LimitRange', 'PersistentVolumeClaim', 'PodTemplate', 'ReplicationController', 'ResourceQuota'],
  'apps/v1': ['ControllerRevision', 'DaemonSet', 'StatefulSet'],
  'autoscaling/v1': ['HorizontalPodAutoscaler'],
  'autoscaling/v2': ['HorizontalPodAutoscaler'],
  'batch/v1': ['CronJob', 'Job'],
  'certificates.k8s.io/v1': ['PodCertificateRequest'],
  'resource.k8s.io/v1': ['ResourceClaim', 'ResourceClaimTemplate'],
  'storage.k8s.io/v1': ['CSIStorageCapacity'],
};

const CLUSTER_SCOPED: Readonly<Record<string, readonly string[]>> = {
  v1: ['Node', 'PersistentVolume'],
  'certificates.k8s.io/v1': ['CertificateSigningRequest'],
  'flowcontrol.apiserver.k8s.io/v1': ['FlowSchema', 'PriorityLevelConfiguration'],
  'networking.k8s.io/v1': ['IngressClass', 'IPAddress', 'ServiceCIDR'],
  'node.k8s.io/v1': ['RuntimeClass'],
  'resource.k8s.io/v1': ['DeviceClass', 'DeviceTaintRule', 'ResourceSlice'],
  'scheduling.k8s.io/v1': ['PriorityClass'],
  'storagemigration.k8s.io/v1': ['StorageVersionMigration'],
  'storage.k8s.io/v1': ['CSIDriver', 'CSINode', 'StorageClass', 'VolumeAttachment', 'VolumeAttributesClass'],
};

export const FURTHER_BUILT_IN_KINDS: readonly KindNames[] = [
  ...listed(NAMESPACED, true),
  ...listed(CLUSTER_SCOPED, false),
];

function listed(table: typeof NAMESPACED, namespaced: boolean): readonly KindNames[] {
  return Object.entries(table).flatMap(([apiVersion, kinds]) =>
    kinds.map((kind) => ({ apiVersion, kind, resource: guessPlural(kind), namespaced })),
  );
}

/** The most likely plural of a kind; correct for all kinds of Kubernetes above. */
export function guessPlural(kind: string): string {
  const singular = kind.toLowerCase();
  if (/[^aeiou]y$/.test(singular)) return `${singular.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(singular) ? `${singular}es` : `${singular}s`;
}
