/** T11: a CA signs a trial certificate before it replaces another one. The certificate never leaves this file. */
import { messageOf } from '../../json/abort.ts';
import { after, HOUR, latest } from '../durations.ts';
import {
  addressBytes,
  certificateFields,
  forbiddenAddress,
  forbiddenName,
  USAGE_OF,
} from '../x509/certificate-fields.ts';
import { signServingCert } from '../x509/certificate.ts';
import { isTrustedBy, nameOf, pathProblem } from '../x509/chains.ts';
import { type CertificatePem, joinCertificatePems, toCertificatePem } from '../x509/pem.ts';
import { activeGeneration, type Authority, bridgesFrom, caBundle, pendingGeneration } from './authority.ts';
import {
  caOf,
  type Generation,
  intermediatesOf,
  isOwnRoot,
  isSameCa,
  issuerOf,
  lifeOf,
  pathOf,
  rootOf,
  rootsOf,
} from './generation.ts';

type Signer = Pick<Generation, 'id' | 'certificate' | 'chain' | 'key'>;

/** What a CA must be able to sign under the settings of the operator. */
export interface TrialScope {
  readonly dnsNames: readonly string[];
  readonly addresses: readonly string[];
}

/** @throws Error if some client that trusts the root would reject a certificate for these names and addresses */
export async function signTrial(
  ca: Signer,
  { dnsNames, addresses }: TrialScope,
  now: Date,
): Promise<CertificatePem> {
  const path = pathOf(ca);
  const root = rootOf(ca);
  const problem = pathProblem(path, now);
  if (problem !== undefined) throw new Error(problem);
  if (path.length > 1 && isOwnRoot(root))
    throw new Error(
      `its root ${nameOf(root)} is a CA of Gatehouse, which signs no other CAs: use another root`,
    );
  const limits = path.map(certificateFields);
  const name = forbiddenName(limits, dnsNames);
  if (name !== undefined)
    throw new Error(
      `its name constraints exclude ${name}, and so names that serving certs hold: permit svc, the cluster domain and the domains of ` +
        '--serving-cert-dns-suffixes and --serving-cert-namespace-suffixes',
    );
  const address = forbiddenAddress(limits, addresses);
  if (address !== undefined)
    throw new Error(
      `its name constraints exclude the IP address ${address}, and so cluster IPs that serving certs may hold: permit the range of the ` +
        'cluster IPs, or set --serving-cert-cluster-ips to false',
    );
  const notBefore = latest(now, lifeOf(ca).notBefore);
  const leaf = await signServingCert(
    { dnsNames, addresses: addresses.map(addressBytes).filter((one) => one !== undefined) },
    caOf(ca).publicKey, // any key will do
    { serial: Uint8Array.of(1), notBefore, notAfter: after(notBefore, HOUR) },
    issuerOf(ca),
  );
  const served = [leaf, ...intermediatesOf(ca).map((one) => toCertificatePem([one]))];
  if (!isTrustedBy(joinCertificatePems(served), toCertificatePem([root]), notBefore))
    throw new Error('clients reject a certificate that it signs');
  return leaf;
}

export const forbidsClientCerts = (ca: Pick<Signer, 'certificate' | 'chain'>): boolean =>
  pathOf(ca).some((one) => certificateFields(one).extendedKeyUsage?.includes(USAGE_OF.client) === false);

/** Why the pending generation must not sign. Its clients hold the bundle, or only a root of the generation before it. */
export async function activationProblem(
  authority: Authority,
  scope: TrialScope,
  now: Date,
): Promise<string | undefined> {
  const pending = pendingGeneration(authority);
  if (pending === undefined) return undefined;
  try {
    const leaf = await signTrial(pending, scope, now);
    const bridges = bridgesFrom(authority, pending.id, now);
    const served = joinCertificatePems([leaf, ...bridges]);
    const previous = activeGeneration(authority);
    const isBridged = pending.bridge !== undefined && bridges.includes(pending.bridge);
    // Without a bridge: the authority key identifier of an intermediate CA may name the serial number of the new root.
    const isReached = isBridged || isSameCa(rootOf(pending), rootOf(previous));
    const former = rootsOf(previous).filter(({ validToDate }) => validToDate > now);
    const bundles = [
      caBundle(authority, now),
      ...(isReached ? former.map((root) => toCertificatePem([root])) : []),
    ];
    return bundles.every((bundle) => isTrustedBy(served, bundle, now))
      ? undefined
      : `clients that hold the root of generation ${previous.id} reject a certificate that it signs`;
  } catch (error) {
    return messageOf(error);
  }
}
