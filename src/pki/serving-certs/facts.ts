import { X509Certificate } from 'node:crypto';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';
import type { Authority } from '../authority/authority.ts';
import { certificateFields, OID } from '../x509/certificate-fields.ts';
import { rootOf } from '../authority/generation.ts';
import { keyAlgorithmOf, type KeyAlgorithm } from '../x509/keys.ts';
import { fingerprintsOf, readPrivateKeyPem, splitCertificates } from '../x509/pem.ts';
import type { ObjectMeta } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { isOpenshiftAnnotation } from './openshift.ts';
import type { Secret } from './secret.ts';

export type UnusableReason = 'Unreadable' | 'KeyMismatch' | 'WrongUsage';

interface UnusableServingCert {
  readonly kind: 'unusable';
  readonly reason: UnusableReason;
  /** For people: what is wrong. */
  readonly message: string;
}

interface ReadServingCert {
  readonly kind: 'usable';
  /** The leaf: DER in base64. */
  readonly leaf: string;
  readonly dnsNames: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Undefined for a key that Gatehouse would not make. */
  readonly algorithm: KeyAlgorithm | undefined;
  /** What stands behind the leaf, one by one, as fingerprints (SHA-256). */
  readonly bridges: readonly string[];
  /** What `ca.crt` trusts, as {@link fingerprintsOf}; undefined if it is missing or broken. */
  readonly bundle: string | undefined;
}

/** What can be told of a Secret without knowing the authority. It holds no key, so a store may keep it for long. */
export type ServingCertSummary = UnusableServingCert | ReadServingCert;

export interface UsableServingCert extends ReadServingCert {
  /** The generation whose key made the signature on the leaf; undefined if none did. */
  readonly signedBy: string | undefined;
}

/** What is in the Secret of a serving cert, seen by an authority. */
export type ServingCertFacts = UnusableServingCert | UsableServingCert;

type SecretData = Readonly<Record<string, string>>;

/** {@link summarizeServingCert} and {@link factsOf} in one. */
export function readServingCert(
  data: SecretData | undefined,
  authority: Authority,
): ServingCertFacts | undefined {
  const summary = summarizeServingCert(data);
  return summary === undefined ? undefined : factsOf(summary, authority);
}

/**
 * Reads the `data` of a Secret (values in base64), whoever wrote it: garbage is a fact, never an error.
 * Undefined if it holds neither certificate nor key.
 */
export function summarizeServingCert(data: SecretData | undefined): ServingCertSummary | undefined {
  const certificateText = textOf(data, TLS_CERT_KEY);
  const keyText = textOf(data, TLS_PRIVATE_KEY_KEY);
  if (certificateText === undefined && keyText === undefined) return undefined;
  if (certificateText === undefined) return unusable('Unreadable', `${TLS_CERT_KEY} is missing`);
  if (keyText === undefined) return unusable('Unreadable', `${TLS_PRIVATE_KEY_KEY} is missing`);
  try {
    const [leaf, ...bridges] = inKey(TLS_CERT_KEY, () => splitCertificates(certificateText));
    if (leaf === undefined) return unusable('Unreadable', `${TLS_CERT_KEY}: there is no PEM certificate`);
    const key = inKey(TLS_PRIVATE_KEY_KEY, () => readPrivateKeyPem(keyText));
    if (!leaf.checkPrivateKey(key))
      return unusable(
        'KeyMismatch',
        `${TLS_PRIVATE_KEY_KEY} is not the key of the certificate in ${TLS_CERT_KEY}`,
      );
    return inKey(TLS_CERT_KEY, () => summaryOf(leaf, bridges, textOf(data, CA_BUNDLE_KEY)));
  } catch (error) {
    return unusable('Unreadable', error instanceof Error ? error.message : String(error));
  }
}

function summaryOf(
  leaf: X509Certificate,
  bridges: readonly X509Certificate[],
  bundle: string | undefined,
): ServingCertSummary {
  const { dnsNames, extendedKeyUsage } = certificateFields(leaf);
  if (extendedKeyUsage?.includes(OID.serverAuth) !== true)
    return unusable('WrongUsage', `${TLS_CERT_KEY}: the first certificate is not that of a server`);
  return {
    kind: 'usable',
    leaf: leaf.raw.toString('base64'),
    dnsNames,
    notBefore: leaf.validFromDate,
    notAfter: leaf.validToDate,
    algorithm: keyAlgorithmOf(leaf.publicKey),
    bridges: bridges.map(({ fingerprint256 }) => fingerprint256),
    bundle: bundle === undefined ? undefined : bundleFingerprints(bundle),
  };
}

let lastBundle: { readonly text: string; readonly fingerprints: string | undefined } | undefined;

/** Thousands of Secrets hold the same bundle: the one that was read last is not read again, and its result is one string. */
function bundleFingerprints(text: string): string | undefined {
  if (lastBundle?.text !== text) lastBundle = { text, fingerprints: fingerprintsOf(text) };
  return lastBundle.fingerprints;
}

export function factsOf(summary: ServingCertSummary, authority: Authority): ServingCertFacts {
  return summary.kind === 'unusable' ? summary : { ...summary, signedBy: signerOf(summary.leaf, authority) };
}

/**
 * The id of the generation that signed this leaf (DER in base64). Judged by the signature and nothing else: names and key ids
 * are claims that anybody can write into a certificate.
 */
export function signerOf(leaf: string, { generations }: Authority): string | undefined {
  const certificate = new X509Certificate(Buffer.from(leaf, 'base64'));
  return generations.find((generation) => certificate.verify(rootOf(generation).publicKey))?.id;
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

/**
 * A Secret as a store keeps it: what a decision to leave it alone needs. No key, no data, and of the annotations only those that
 * Gatehouse writes. A write is never made from this: it would drop what others put there.
 */
export interface StoredSecret extends Secret {
  /** Undefined if there is neither certificate nor key. */
  readonly summary?: ServingCertSummary | undefined;
}

export function toStoredSecret(secret: Secret): StoredSecret {
  const { metadata } = secret;
  return {
    ...(metadata === undefined ? {} : { metadata: slim(metadata) }),
    ...pick(secret, 'type', 'immutable'),
    summary: summarizeServingCert(secret.data),
  };
}

function slim(metadata: ObjectMeta): ObjectMeta {
  const { annotations } = metadata;
  return {
    ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'labels', 'ownerReferences'),
    ...(annotations === undefined ? {} : { annotations: ownAnnotations(annotations) }),
  };
}

/** Annotations of others can be as large as the object itself: kubectl keeps a copy of it in one. */
export const ownAnnotations = (
  annotations: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(annotations).filter(
      ([name]) => name.startsWith('gatehouse.dev/') || isOpenshiftAnnotation(name),
    ),
  );
