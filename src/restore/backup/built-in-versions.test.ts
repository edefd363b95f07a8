import { expect, test } from 'vitest';
import { isServedBuiltIn } from './built-in-versions.ts';

test.each([
  ['certificates.k8s.io/v1', 'ClusterTrustBundle', 36, false],
  ['certificates.k8s.io/v1', 'ClusterTrustBundle', 37, true],
  ['certificates.k8s.io/v1', 'CertificateSigningRequest', 30, undefined],
  ['flowcontrol.apiserver.k8s.io/v1beta3', 'FlowSchema', 31, true],
  ['flowcontrol.apiserver.k8s.io/v1beta3', 'FlowSchema', 32, false],
  ['resource.k8s.io/v1', 'DeviceTaintRule', 36, false],
  ['resource.k8s.io/v1', 'DeviceClass', 36, true],
  ['policy/v1beta1', 'PodDisruptionBudget', 30, undefined],
  ['example.com/v1', 'Server', 30, undefined],
])('%s %s in 1.%i: %s', (apiVersion, kind, minor, served) => {
  expect(isServedBuiltIn(apiVersion, kind, minor)).toBe(served);
});
