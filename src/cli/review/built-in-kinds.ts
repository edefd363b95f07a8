/**
 * Built-in kinds that the sandbox does not serve: only their names, so that policies can refer to e.g. `statefulsets`.
 * Their fields are not validated.
 *
 * @see `kubectl api-resources` of Kubernetes 1.36
 */
export interface KindNames {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
  /** The plural. */
  readonly resource: string;
  readonly namespaced: boolean;
}

const NAMESPACED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  v1: {
    LimitRange: 'limitranges',
    PersistentVolumeClaim: 'persistentvolumeclaims',
    PodTemplate: 'podtemplates',
    ReplicationController: 'replicationcontrollers',
    ResourceQuota: 'resourcequotas',
  },
  'apps/v1': {
    ControllerRevision: 'controllerrevisions',
    DaemonSet: 'daemonsets',
    StatefulSet: 'statefulsets',
  },
  'autoscaling/v1': { HorizontalPodAutoscaler: 'horizontalpodautoscalers' },
  'autoscaling/v2': { HorizontalPodAutoscaler: 'horizontalpodautoscalers' },
  'batch/v1': { CronJob: 'cronjobs', Job: 'jobs' },
  'networking.k8s.io/v1': { Ingress: 'ingresses' },
  'resource.k8s.io/v1': { ResourceClaim: 'resourceclaims', ResourceClaimTemplate: 'resourceclaimtemplates' },
  'storage.k8s.io/v1': { CSIStorageCapacity: 'csistoragecapacities' },
};

const CLUSTER_SCOPED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  v1: { Node: 'nodes', PersistentVolume: 'persistentvolumes' },
  'admissionregistration.k8s.io/v1': {
    ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
    ValidatingAdmissionPolicyBinding: 'validatingadmissionpolicybindings',
  },
  'certificates.k8s.io/v1': { CertificateSigningRequest: 'certificatesigningrequests' },
  'flowcontrol.apiserver.k8s.io/v1': {
    FlowSchema: 'flowschemas',
    PriorityLevelConfiguration: 'prioritylevelconfigurations',
  },
  'networking.k8s.io/v1': {
    IngressClass: 'ingressclasses',
    IPAddress: 'ipaddresses',
    ServiceCIDR: 'servicecidrs',
  },
  'node.k8s.io/v1': { RuntimeClass: 'runtimeclasses' },
  'resource.k8s.io/v1': { DeviceClass: 'deviceclasses', ResourceSlice: 'resourceslices' },
  'scheduling.k8s.io/v1': { PriorityClass: 'priorityclasses' },
  'storage.k8s.io/v1': {
    CSIDriver: 'csidrivers',
    CSINode: 'csinodes',
    StorageClass: 'storageclasses',
    VolumeAttachment: 'volumeattachments',
    VolumeAttributesClass: 'volumeattributesclasses',
  },
};

export const FURTHER_BUILT_IN_KINDS: readonly KindNames[] = [
  ...listed(NAMESPACED, true),
  ...listed(CLUSTER_SCOPED, false),
];

function listed(
  table: Readonly<Record<string, Readonly<Record<string, string>>>>,
  namespaced: boolean,
): readonly KindNames[] {
  return Object.entries(table).flatMap(([apiVersion, kinds]) =>
    Object.entries(kinds).map(([kind, resource]) => ({ apiVersion, kind, resource, namespaced })),
  );
}

/** The most likely plural of a kind. */
export function guessPlural(kind: string): string {
  const singular = kind.toLowerCase();
  if (/[^aeiou]y$/.test(singular)) return `${singular.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(singular) ? `${singular}es` : `${singular}s`;
}
