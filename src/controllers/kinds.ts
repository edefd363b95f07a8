/** The types of the kinds, by the name of their resource. */
import type { V1CertificateSigningRequest } from '@kubernetes/client-node/dist/gen/models/V1CertificateSigningRequest.js';
import type { V1ClusterRole } from '@kubernetes/client-node/dist/gen/models/V1ClusterRole.js';
import type { V1ClusterRoleBinding } from '@kubernetes/client-node/dist/gen/models/V1ClusterRoleBinding.js';
import type { V1ConfigMap } from '@kubernetes/client-node/dist/gen/models/V1ConfigMap.js';
import type { V1CronJob } from '@kubernetes/client-node/dist/gen/models/V1CronJob.js';
import type { V1CustomResourceDefinition } from '@kubernetes/client-node/dist/gen/models/V1CustomResourceDefinition.js';
import type { V1DaemonSet } from '@kubernetes/client-node/dist/gen/models/V1DaemonSet.js';
import type { V1Deployment } from '@kubernetes/client-node/dist/gen/models/V1Deployment.js';
import type { V1EndpointSlice } from '@kubernetes/client-node/dist/gen/models/V1EndpointSlice.js';
import type { V1Endpoints } from '@kubernetes/client-node/dist/gen/models/V1Endpoints.js';
import type { V1Ingress } from '@kubernetes/client-node/dist/gen/models/V1Ingress.js';
import type { V1IngressClass } from '@kubernetes/client-node/dist/gen/models/V1IngressClass.js';
import type { V1Job } from '@kubernetes/client-node/dist/gen/models/V1Job.js';
import type { V1Lease } from '@kubernetes/client-node/dist/gen/models/V1Lease.js';
import type { V1LimitRange } from '@kubernetes/client-node/dist/gen/models/V1LimitRange.js';
import type { V1MutatingWebhookConfiguration } from '@kubernetes/client-node/dist/gen/models/V1MutatingWebhookConfiguration.js';
import type { V1Namespace } from '@kubernetes/client-node/dist/gen/models/V1Namespace.js';
import type { V1NetworkPolicy } from '@kubernetes/client-node/dist/gen/models/V1NetworkPolicy.js';
import type { V1Node } from '@kubernetes/client-node/dist/gen/models/V1Node.js';
import type { V1PersistentVolume } from '@kubernetes/client-node/dist/gen/models/V1PersistentVolume.js';
import type { V1PersistentVolumeClaim } from '@kubernetes/client-node/dist/gen/models/V1PersistentVolumeClaim.js';
import type { V1Pod } from '@kubernetes/client-node/dist/gen/models/V1Pod.js';
import type { V1PodDisruptionBudget } from '@kubernetes/client-node/dist/gen/models/V1PodDisruptionBudget.js';
import type { V1PriorityClass } from '@kubernetes/client-node/dist/gen/models/V1PriorityClass.js';
import type { V1ReplicaSet } from '@kubernetes/client-node/dist/gen/models/V1ReplicaSet.js';
import type { V1ReplicationController } from '@kubernetes/client-node/dist/gen/models/V1ReplicationController.js';
import type { V1ResourceQuota } from '@kubernetes/client-node/dist/gen/models/V1ResourceQuota.js';
import type { V1Role } from '@kubernetes/client-node/dist/gen/models/V1Role.js';
import type { V1RoleBinding } from '@kubernetes/client-node/dist/gen/models/V1RoleBinding.js';
import type { V1Secret } from '@kubernetes/client-node/dist/gen/models/V1Secret.js';
import type { V1Service } from '@kubernetes/client-node/dist/gen/models/V1Service.js';
import type { V1ServiceAccount } from '@kubernetes/client-node/dist/gen/models/V1ServiceAccount.js';
import type { V1StatefulSet } from '@kubernetes/client-node/dist/gen/models/V1StatefulSet.js';
import type { V1StorageClass } from '@kubernetes/client-node/dist/gen/models/V1StorageClass.js';
import type { V1ValidatingWebhookConfiguration } from '@kubernetes/client-node/dist/gen/models/V1ValidatingWebhookConfiguration.js';
import type { V2HorizontalPodAutoscaler } from '@kubernetes/client-node/dist/gen/models/V2HorizontalPodAutoscaler.js';
import type { ReadableKind, UntypedObject } from '../admission/handlers/handler.ts';

/** As client-node describes it, with its own apiVersion and kind. */
type BuiltIn<ApiVersion extends string, Kind extends string, Type> = Omit<Type, 'apiVersion' | 'kind'> & {
  apiVersion: ApiVersion;
  kind: Kind;
};

/** Extend it with your own kinds: `gatehouse generate types` prints the code. */
export interface Kinds {
  readonly configmaps: BuiltIn<'v1', 'ConfigMap', V1ConfigMap>;
  readonly endpoints: BuiltIn<'v1', 'Endpoints', V1Endpoints>;
  readonly limitranges: BuiltIn<'v1', 'LimitRange', V1LimitRange>;
  readonly namespaces: BuiltIn<'v1', 'Namespace', V1Namespace>;
  readonly nodes: BuiltIn<'v1', 'Node', V1Node>;
  readonly persistentvolumeclaims: BuiltIn<'v1', 'PersistentVolumeClaim', V1PersistentVolumeClaim>;
  readonly persistentvolumes: BuiltIn<'v1', 'PersistentVolume', V1PersistentVolume>;
  readonly pods: BuiltIn<'v1', 'Pod', V1Pod>;
  readonly replicationcontrollers: BuiltIn<'v1', 'ReplicationController', V1ReplicationController>;
  readonly resourcequotas: BuiltIn<'v1', 'ResourceQuota', V1ResourceQuota>;
  readonly secrets: BuiltIn<'v1', 'Secret', V1Secret>;
  readonly serviceaccounts: BuiltIn<'v1', 'ServiceAccount', V1ServiceAccount>;
  readonly services: BuiltIn<'v1', 'Service', V1Service>;
  readonly 'daemonsets.apps': BuiltIn<'apps/v1', 'DaemonSet', V1DaemonSet>;
  readonly 'deployments.apps': BuiltIn<'apps/v1', 'Deployment', V1Deployment>;
  readonly 'replicasets.apps': BuiltIn<'apps/v1', 'ReplicaSet', V1ReplicaSet>;
  readonly 'statefulsets.apps': BuiltIn<'apps/v1', 'StatefulSet', V1StatefulSet>;
  readonly 'cronjobs.batch': BuiltIn<'batch/v1', 'CronJob', V1CronJob>;
  readonly 'jobs.batch': BuiltIn<'batch/v1', 'Job', V1Job>;
  readonly 'horizontalpodautoscalers.autoscaling': BuiltIn<
    'autoscaling/v2',
    'HorizontalPodAutoscaler',
    V2HorizontalPodAutoscaler
  >;
  readonly 'poddisruptionbudgets.policy': BuiltIn<'policy/v1', 'PodDisruptionBudget', V1PodDisruptionBudget>;
  readonly 'ingresses.networking.k8s.io': BuiltIn<'networking.k8s.io/v1', 'Ingress', V1Ingress>;
  readonly 'ingressclasses.networking.k8s.io': BuiltIn<
    'networking.k8s.io/v1',
    'IngressClass',
    V1IngressClass
  >;
  readonly 'networkpolicies.networking.k8s.io': BuiltIn<
    'networking.k8s.io/v1',
    'NetworkPolicy',
    V1NetworkPolicy
  >;
  readonly 'roles.rbac.authorization.k8s.io': BuiltIn<'rbac.authorization.k8s.io/v1', 'Role', V1Role>;
  readonly 'rolebindings.rbac.authorization.k8s.io': BuiltIn<
    'rbac.authorization.k8s.io/v1',
    'RoleBinding',
    V1RoleBinding
  >;
  readonly 'clusterroles.rbac.authorization.k8s.io': BuiltIn<
    'rbac.authorization.k8s.io/v1',
    'ClusterRole',
    V1ClusterRole
  >;
  readonly 'clusterrolebindings.rbac.authorization.k8s.io': BuiltIn<
    'rbac.authorization.k8s.io/v1',
    'ClusterRoleBinding',
    V1ClusterRoleBinding
  >;
  readonly 'storageclasses.storage.k8s.io': BuiltIn<'storage.k8s.io/v1', 'StorageClass', V1StorageClass>;
  readonly 'leases.coordination.k8s.io': BuiltIn<'coordination.k8s.io/v1', 'Lease', V1Lease>;
  readonly 'endpointslices.discovery.k8s.io': BuiltIn<
    'discovery.k8s.io/v1',
    'EndpointSlice',
    V1EndpointSlice
  >;
  readonly 'priorityclasses.scheduling.k8s.io': BuiltIn<
    'scheduling.k8s.io/v1',
    'PriorityClass',
    V1PriorityClass
  >;
  readonly 'customresourcedefinitions.apiextensions.k8s.io': BuiltIn<
    'apiextensions.k8s.io/v1',
    'CustomResourceDefinition',
    V1CustomResourceDefinition
  >;
  readonly 'certificatesigningrequests.certificates.k8s.io': BuiltIn<
    'certificates.k8s.io/v1',
    'CertificateSigningRequest',
    V1CertificateSigningRequest
  >;
  readonly 'mutatingwebhookconfigurations.admissionregistration.k8s.io': BuiltIn<
    'admissionregistration.k8s.io/v1',
    'MutatingWebhookConfiguration',
    V1MutatingWebhookConfiguration
  >;
  readonly 'validatingwebhookconfigurations.admissionregistration.k8s.io': BuiltIn<
    'admissionregistration.k8s.io/v1',
    'ValidatingWebhookConfiguration',
    V1ValidatingWebhookConfiguration
  >;
}

/** The type of `'secrets'` or `'users.people.example.com'`, if {@link Kinds} has it. */
export type TypeOf<Resource extends ReadableKind> = Resource extends keyof Kinds
  ? Kinds[Resource]
  : UntypedObject;

type Known = Kinds[keyof Kinds];

/** The type with this apiVersion and this kind; never if {@link Kinds} lacks it. */
export type ObjectOf<ApiVersion, Kind> = Extract<
  Known,
  { readonly apiVersion: ApiVersion; readonly kind: Kind }
>;
