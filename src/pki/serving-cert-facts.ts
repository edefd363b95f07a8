import type { X509Certificate } from 'node:crypto';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from './annotations.ts';
import type { Authority } from './authority.ts';
import { certificateFields, OID } from './certificate-fields.ts';
import { rootOf } from './generation.ts';
import { keyAlgorithmOf, type KeyAlgorithm } from './keys.ts';
import {
  parsePrivateKeyPem,
  privateKeyOf,
  splitCertificates,
  toCertificatePem,
  type CertificatePem,
} from './pem.ts';

export type UnusableReason = 'Unreadable' | 'KeyMismatch' | 'WrongUsage';

interface UnusableServingCert {
  readonly kind: 'unusable';
  readonly reason: UnusableReason;
  /** For people: what is wrong. */
  readonly message: string;
}

export interface UsableServingCert {
  readonly kind: 'usable';
  readonly dnsNames: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Undefined for a key that Gatehouse would not make. */
  readonly algorithm: KeyAlgorithm | undefined;
  /** The generation whose key made the signature on the leaf; undefined if none did. */
  readonly signedBy: string | undefined;
  /** What stands behind the leaf, one by one. */
  readonly bridges: readonly CertificatePem[];
  /** `ca.crt` as it stands there. */
  readonly bundle: string | undefined;
}

/** What is in the Secret of a serving cert. */
export type ServingCertFacts = UnusableServingCert | UsableServingCert;

type SecretData = Readonly<Record<string, string>>;

/**
 * Reads the `data` of a Secret (values in base64), whoever wrote it: garbage is a fact, never an error.
 * Undefined if it holds neither certificate nor key.
 */
export function readServingCert(
  data: SecretData | undefined,
  authority: Authority,
): ServingCertFacts | undefined {
  const certificateText = textOf(data, TLS_CERT_KEY);
  const keyText = textOf(data, TLS_PRIVATE_KEY_KEY);
  if (certificateText === undefined && keyText === undefined) return undefined;
  if (certificateText === undefined) return unusable('Unreadable', `${TLS_CERT_KEY} is missing`);
  if (keyText === undefined) return unusable('Unreadable', `${TLS_PRIVATE_KEY_KEY} is missing`);
  try {
    const [leaf, ...bridges] = inKey(TLS_CERT_KEY, () => splitCertificates(certificateText));
    if (leaf === undefined) return unusable('Unreadable', `${TLS_CERT_KEY}: there is no PEM certificate`);
    const key = inKey(TLS_PRIVATE_KEY_KEY, () => privateKeyOf(parsePrivateKeyPem(keyText)));
    if (!leaf.checkPrivateKey(key))
      return unusable(
        'KeyMismatch',
        `${TLS_PRIVATE_KEY_KEY} is not the key of the certificate in ${TLS_CERT_KEY}`,
      );
    return inKey(TLS_CERT_KEY, () => factsOf(leaf, bridges, textOf(data, CA_BUNDLE_KEY), authority));
  } catch (error) {
    return unusable('Unreadable', error instanceof Error ? error.message : String(error));
  }
}

function factsOf(
  leaf: X509Certificate,
  bridges: readonly X509Certificate[],
  bundle: string | undefined,
  authority: Authority,
): ServingCertFacts {
  const { dnsNames, extendedKeyUsage } = certificateFields(leaf);
  if (extendedKeyUsage?.includes(OID.serverAuth) !== true)
    return unusable('WrongUsage', `${TLS_CERT_KEY}: the first certificate is not that of a server`);
  return {
    kind: 'usable',
    dnsNames,
    notBefore: leaf.validFromDate,
    notAfter: leaf.validToDate,
    algorithm: keyAlgorithmOf(leaf.publicKey),
    signedBy: signerOf(leaf, authority),
    bridges: bridges.map((bridge) => toCertificatePem([bridge])),
    bundle,
  };
}

/** Judged by the signature and nothing else: names and key ids are claims that anybody can write into a certificate. */
function signerOf(leaf: X509Certificate, { generations }: Authority): string | undefined {
  return generations.find((generation) => leaf.verify(rootOf(generation).publicKey))?.id;
}

function textOf(data: SecretData | undefined, key: string): string | undefined {
  const value = data?.[key];
  return value === undefined || value === '' ? undefined : Buffer.from(value, 'base64').toString('utf8');
}

function inKey<Value>(dataKey: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new Error(`${dataKey}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

const unusable = (reason: UnusableReason, message: string): UnusableServingCert => ({
  kind: 'unusable',
  reason,
  message,
});
