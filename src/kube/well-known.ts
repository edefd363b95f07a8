import type { Resource } from './object.ts';

/** Resources that every supported API server (1.20 and newer) serves in these versions. */

const core = (resource: string, kind: string, namespaced = true): Resource => ({
  group: '',
  version: 'v1',
  resource,
  kind,
  namespaced,
});

const clusterScoped = (group: string, resource: string, kind: string): Resource => ({
  group,
  version: 'v1',
  resource,
  kind,
  namespaced: false,
});

export const secrets = core('secrets', 'Secret');
export const services = core('services', 'Service');
export const configMaps = core('configmaps', 'ConfigMap');
export const events = core('events', 'Event');
export const namespaces = core('namespaces', 'Namespace', false);

export const leases: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  resource: 'leases',
  kind: 'Lease',
  namespaced: true,
};

export const mutatingWebhookConfigurations = clusterScoped(
  'admissionregistration.k8s.io',
  'mutatingwebhookconfigurations',
  'MutatingWebhookConfiguration',
);
/** Since Kubernetes 1.30. */
export const validatingAdmissionPolicies = clusterScoped(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicies',
  'ValidatingAdmissionPolicy',
);
export const validatingAdmissionPolicyBindings = clusterScoped(
  'admissionregistration.k8s.io',
  'validatingadmissionpolicybindings',
  'ValidatingAdmissionPolicyBinding',
);
export const validatingWebhookConfigurations = clusterScoped(
  'admissionregistration.k8s.io',
  'validatingwebhookconfigurations',
  'ValidatingWebhookConfiguration',
);

export const customResourceDefinitions = clusterScoped(
  'apiextensions.k8s.io',
  'customresourcedefinitions',
  'CustomResourceDefinition',
);
export const apiServices = clusterScoped('apiregistration.k8s.io', 'apiservices', 'APIService');

export const selfSubjectAccessReviews = clusterScoped(
  'authorization.k8s.io',
  'selfsubjectaccessreviews',
  'SelfSubjectAccessReview',
);

export const subjectAccessReviews = clusterScoped(
  'authorization.k8s.io',
  'subjectaccessreviews',
  'SubjectAccessReview',
);

export const tokenReviews = clusterScoped('authentication.k8s.io', 'tokenreviews', 'TokenReview');
