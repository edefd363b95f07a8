/** In which releases of Kubernetes the API server serves a built-in kind. */

/** `[apiVersion, kinds, first minor version, last minor version]`; no kinds: all kinds of that apiVersion. */
type Row = readonly [apiVersion: string, kinds: string, since: number, until?: number];

/** @see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ */
const ROWS: readonly Row[] = [
  ['extensions/v1beta1', '', 1, 21],
  ['apps/v1beta1', '', 1, 15],
  ['apps/v1beta2', '', 1, 15],
  ['apiextensions.k8s.io/v1beta1', '', 1, 21],
  ['admissionregistration.k8s.io/v1', 'ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding', 30],
  ['admissionregistration.k8s.io/v1', 'MutatingAdmissionPolicy MutatingAdmissionPolicyBinding', 36],
  [
    'admissionregistration.k8s.io/v1beta1',
    'MutatingWebhookConfiguration ValidatingWebhookConfiguration',
    1,
    21,
  ],
  ['authentication.k8s.io/v1beta1', '', 1, 21],
  ['authorization.k8s.io/v1beta1', '', 1, 21],
  ['autoscaling/v2', '', 23],
  ['autoscaling/v2beta1', '', 1, 24],
  ['autoscaling/v2beta2', '', 12, 25],
  ['batch/v1', 'CronJob', 21],
  ['batch/v1beta1', '', 8, 24],
  ['certificates.k8s.io/v1beta1', 'CertificateSigningRequest', 1, 21],
  ['coordination.k8s.io/v1beta1', 'Lease', 12, 21],
  ['discovery.k8s.io/v1', '', 21],
  ['discovery.k8s.io/v1beta1', '', 16, 24],
  ['events.k8s.io/v1beta1', '', 8, 24],
  ['flowcontrol.apiserver.k8s.io/v1', '', 29],
  ['flowcontrol.apiserver.k8s.io/v1beta1', '', 20, 25],
  ['flowcontrol.apiserver.k8s.io/v1beta2', '', 23, 28],
  ['flowcontrol.apiserver.k8s.io/v1beta3', '', 26, 31],
  ['networking.k8s.io/v1', 'Ingress IngressClass', 19],
  ['networking.k8s.io/v1', 'IPAddress ServiceCIDR', 33],
  ['networking.k8s.io/v1beta1', 'Ingress IngressClass', 14, 21],
  ['node.k8s.io/v1', '', 20],
  ['node.k8s.io/v1beta1', '', 14, 24],
  ['policy/v1', '', 21],
  ['policy/v1beta1', '', 5, 24],
  ['rbac.authorization.k8s.io/v1alpha1', '', 6, 21],
  ['rbac.authorization.k8s.io/v1beta1', '', 6, 21],
  ['resource.k8s.io/v1', '', 34],
  ['scheduling.k8s.io/v1beta1', '', 11, 21],
  ['storage.k8s.io/v1', 'CSIStorageCapacity', 24],
  ['storage.k8s.io/v1', 'VolumeAttributesClass', 34],
  ['storage.k8s.io/v1beta1', 'CSIStorageCapacity', 21, 26],
  ['storage.k8s.io/v1beta1', 'CSIDriver CSINode StorageClass VolumeAttachment', 4, 21],
];

/**
 * Undefined: no release of Kubernetes is known to have added or removed it, so the kinds of the newest release decide.
 *
 * @param minor of Kubernetes 1.x
 */
export function isServedBuiltIn(apiVersion: string, kind: string, minor: number): boolean | undefined {
  const row = ROWS.find(
    ([version, kinds]) => version === apiVersion && (kinds === '' || kinds.split(' ').includes(kind)),
  );
  if (row === undefined) return undefined;
  const [, , since, until = Infinity] = row;
  return since <= minor && minor <= until;
}
