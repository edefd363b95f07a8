import type { Resource } from './object.ts';

const inCluster = (group: string, resource: string, kind: string): Resource => ({
  group,
  version: 'v1',
  resource,
  kind,
  namespaced: false,
});
const inNamespace = (group: string, resource: string, kind: string): Resource => ({
  ...inCluster(group, resource, kind),
  namespaced: true,
});

export const secrets = inNamespace('', 'secrets', 'Secret');
export const services = inNamespace('', 'services', 'Service');
export const configMaps = inNamespace('', 'configmaps', 'ConfigMap');
export const events = inNamespace('', 'events', 'Event');
export const namespaces = inCluster('', 'namespaces', 'Namespace');
export const pods = inNamespace('', 'pods', 'Pod');
export const deployments = inNamespace('apps', 'deployments', 'Deployment');
export const replicaSets = inNamespace('apps', 'replicasets', 'ReplicaSet');
export const statefulSets = inNamespace('apps', 'statefulsets', 'StatefulSet');
export const daemonSets = inNamespace('apps', 'daemonsets', 'DaemonSet');
export const roles = inNamespace('rbac.authorization.k8s.io', 'roles', 'Role');
export const clusterRoles = inCluster('rbac.authorization.k8s.io', 'clusterroles', 'ClusterRole');
export const endpointSlices = inNamespace('discovery.k8s.io', 'endpointslices', 'EndpointSlice');
export const leases = inNamespace('coordination.k8s.io', 'leases', 'Lease');

const registration = (kind: string): Resource =>
  inCluster('admissionregistration.k8s.io', `${kind.toLowerCase()}s`, kind);
export const mutatingWebhookConfigurations = registration('MutatingWebhookConfiguration');
export const validatingWebhookConfigurations = registration('ValidatingWebhookConfiguration');
export const validatingAdmissionPolicyBindings = registration('ValidatingAdmissionPolicyBinding');
export const validatingAdmissionPolicies = inCluster(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicies',
  'ValidatingAdmissionPolicy',
);
export const mutatingAdmissionPolicyBindings = registration('MutatingAdmissionPolicyBinding');
export const mutatingAdmissionPolicies = inCluster(
  'admissionregistration.k8s.io',
  'mutatingadmissionpolicies',
  'MutatingAdmissionPolicy',
);

export const customResourceDefinitions = inCluster(
  'apiextensions.k8s.io',
  'customresourcedefinitions',
  'CustomResourceDefinition',
);
/** Of cert-manager, if it is installed. */
export const certificates = inNamespace('cert-manager.io', 'certificates', 'Certificate');
export const apiServices = inCluster('apiregistration.k8s.io', 'apiservices', 'APIService');

const review = (group: string, kind: string): Resource =>
  inCluster(`${group}.k8s.io`, `${kind.toLowerCase()}s`, kind);
export const selfSubjectAccessReviews = review('authorization', 'SelfSubjectAccessReview');
export const selfSubjectReviews = review('authentication', 'SelfSubjectReview');
export const subjectAccessReviews = review('authorization', 'SubjectAccessReview');
export const tokenReviews = review('authentication', 'TokenReview');
