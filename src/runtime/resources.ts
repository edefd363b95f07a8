/** The kinds of Gatehouse, as the API server serves them. */
import { GROUP, VERSION } from '../api/group.ts';
import type { Resource } from '../kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../kube/well-known.ts';
import { TARGET_KINDS, type TargetKind } from '../pki/injection/target.ts';

const own = (resource: string, kind: string, namespaced = false): Resource => ({
  group: GROUP,
  version: VERSION,
  resource,
  kind,
  namespaced,
});

export const ADMISSION_POLICIES = own('admissionpolicies', 'AdmissionPolicy');
export const CONVERSION_POLICIES = own('conversionpolicies', 'ConversionPolicy');
export const POLICY_EXCEPTIONS = own('policyexceptions', 'PolicyException', true);
export const RESTORE_DETECTORS = own('restoredetectors', 'RestoreDetector');
export const RESTORE_REPORTS = own('restorereports', 'RestoreReport');
export const RESTORE_WINDOWS = own('restorewindows', 'RestoreWindow');
export const UNIQUE_CLAIMS = own('uniqueclaims', 'UniqueClaim');

/** The kinds that can carry a CA bundle, and that every API server with an aggregation layer serves. */
export const INJECTION_TARGETS: readonly (readonly [TargetKind, Resource])[] = [
  [TARGET_KINDS.mutating, mutatingWebhookConfigurations],
  [TARGET_KINDS.validating, validatingWebhookConfigurations],
  [TARGET_KINDS.customResourceDefinition, customResourceDefinitions],
  [TARGET_KINDS.apiService, apiServices],
  [TARGET_KINDS.configMap, configMaps],
];

/** The kinds of Gatehouse's own objects with a bundle. It maintains them even without injection. */
export const OWN_TARGETS: ReadonlySet<TargetKind['kind']> = new Set([
  TARGET_KINDS.mutating.kind,
  TARGET_KINDS.validating.kind,
  TARGET_KINDS.configMap.kind,
]);

/** The best version first. Kubernetes serves v1 by default, and the others only if an administrator enables them. */
export const CLUSTER_TRUST_BUNDLES: readonly Resource[] = ['v1', 'v1beta1', 'v1alpha1'].map((version) => ({
  group: 'certificates.k8s.io',
  version,
  resource: 'clustertrustbundles',
  kind: 'ClusterTrustBundle',
  namespaced: false,
}));
