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

const own = (resource: string, kind: string): Resource => ({
  group: GROUP,
  version: VERSION,
  resource,
  kind,
  namespaced: false,
});

export const ADMISSION_POLICIES = own('admissionpolicies', 'AdmissionPolicy');
export const CONVERSION_POLICIES = own('conversionpolicies', 'ConversionPolicy');
export const RESTORE_DETECTORS = own('restoredetectors', 'RestoreDetector');
export const RESTORE_REPORTS = own('restorereports', 'RestoreReport');
export const RESTORE_WINDOWS = own('restorewindows', 'RestoreWindow');
export const UNIQUE_CLAIMS = own('uniqueclaims', 'UniqueClaim');

/** The kinds that can carry a CA bundle. */
export const INJECTION_TARGETS: readonly (readonly [TargetKind, Resource])[] = [
  [TARGET_KINDS.mutating, mutatingWebhookConfigurations],
  [TARGET_KINDS.validating, validatingWebhookConfigurations],
  [TARGET_KINDS.customResourceDefinition, customResourceDefinitions],
  [TARGET_KINDS.apiService, apiServices],
  [TARGET_KINDS.configMap, configMaps],
];
