/** In which releases of Kubernetes the API server serves a built-in kind. */

/** `[apiVersion, kinds, first minor version, last minor version]`; no kinds: all other kinds of that apiVersion. */
type Row = readonly [apiVersion: string, kinds: string, since: number, until?: number];

/** What not all API servers from 1.30 to 1.37 serve by default. @see APILifecycleIntroduced in k8s.io/api */
const ROWS: readonly Row[] = [
  ['admissionregistration.k8s.io/v1', 'MutatingAdmissionPolicy MutatingAdmissionPolicyBinding', 36],
  ['certificates.k8s.io/v1', 'ClusterTrustBundle PodCertificateRequest', 37],
  ['flowcontrol.apiserver.k8s.io/v1beta3', '', 30, 31],
  ['networking.k8s.io/v1', 'IPAddress ServiceCIDR', 33],
  ['resource.k8s.io/v1', 'DeviceTaintRule', 37],
  ['resource.k8s.io/v1', '', 34],
  ['storage.k8s.io/v1', 'VolumeAttributesClass', 34],
  ['storagemigration.k8s.io/v1', '', 37],
];

/** Undefined: no supported release has added or removed it, so the kinds of the newest release decide. */
export function isServedBuiltIn(apiVersion: string, kind: string, minor: number): boolean | undefined {
  const row = ROWS.find(
    ([version, kinds]) => version === apiVersion && (kinds === '' || kinds.split(' ').includes(kind)),
  );
  if (row === undefined) return undefined;
  const [, , since, until = Infinity] = row;
  return since <= minor && minor <= until;
}
