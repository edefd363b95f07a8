import { X509Certificate } from 'node:crypto';

import { messageOf } from '../../json/abort.ts';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';
import type { Authority } from '../authority/authority.ts';
import {
  addressText,
  certificateFields,
  LEAF_PURPOSES,
  type LeafPurpose,
  USAGE_OF,
} from '../x509/certificate-fields.ts';
import { caOf } from '../authority/generation.ts';
import { type KeyAlgorithm, keyAlgorithmOf } from '../x509/keys.ts';
import {
  fingerprintsOf,
  isWrittenAs,
  privateKeyOf,
  splitCertificates,
  toCertificatePem,
  toPrivateKeyPem,
} from '../x509/pem.ts';
import { inKey, type SecretData, textOf } from '../secret-data.ts';
import type { ObjectMeta } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { isOpenshiftAnnotation } from './openshift.ts';
import { hasForeignKeys, type MaybeStored, type Secret } from './secret.ts';

export type UnusableReason = 'Unreadable' | 'KeyMismatch' | 'WrongUsage';

interface UnusableServingCert {
  readonly kind: 'unusable';
  readonly reason: UnusableReason;
  readonly message: string;
}

interface ReadServingCert {
  readonly kind: 'usable';
  readonly purpose: LeafPurpose;
  readonly leaf: string;
  readonly dnsNames: readonly string[];
  readonly addresses: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** Undefined for a type of key that Gatehouse does not make. */
  readonly algorithm: KeyAlgorithm | undefined;
  /** The certificates after the leaf, as SHA-256 fingerprints. */
  readonly bridges: readonly string[];
  /** The result of {@link fingerprintsOf} for `ca.crt`; undefined if that is missing, or damaged. */
  readonly bundle: string | undefined;
  /** The keys whose text some client or server cannot read. */
  readonly damaged: readonly string[];
}

export type ServingCertSummary = UnusableServingCert | ReadServingCert;

export interface UsableServingCert extends ReadServingCert {
  /** The generation that signed the leaf; undefined if no known generation did. */
  readonly signedBy: string | undefined;
}

export type ServingCertFacts = UnusableServingCert | UsableServingCert;

export function readServingCert(
  data: SecretData | undefined,
  authority: Authority,
): ServingCertFacts | undefined {
  const summary = summarizeServingCert(data);
  return summary === undefined ? undefined : factsOf(summary, authority);
}

/** Unusable content is a result, never an error. Undefined if there is neither a certificate nor a key. */
export function summarizeServingCert(data: SecretData | undefined): ServingCertSummary | undefined {
  const certificateText = textOf(data, TLS_CERT_KEY) ?? '';
  const keyText = textOf(data, TLS_PRIVATE_KEY_KEY) ?? '';
  if (certificateText === '' && keyText === '') return undefined;
  if (certificateText === '') return unusable('Unreadable', `${TLS_CERT_KEY} is missing`);
  if (keyText === '') return unusable('Unreadable', `${TLS_PRIVATE_KEY_KEY} is missing`);
  try {
    const [leaf, ...bridges] = inKey(TLS_CERT_KEY, () => splitCertificates(certificateText));
    if (leaf === undefined) return unusable('Unreadable', `${TLS_CERT_KEY}: there is no PEM certificate`);
    const key = inKey(TLS_PRIVATE_KEY_KEY, () => privateKeyOf(keyText));
    if (!leaf.checkPrivateKey(key))
      return unusable(
        'KeyMismatch',
        `${TLS_PRIVATE_KEY_KEY} is not the key of the certificate in ${TLS_CERT_KEY}`,
      );
    const bundle = textOf(data, CA_BUNDLE_KEY) ?? '';
    const isDamaged = {
      [TLS_CERT_KEY]: !isWrittenAs(certificateText, toCertificatePem([leaf, ...bridges])),
      [TLS_PRIVATE_KEY_KEY]: !isWrittenAs(keyText, toPrivateKeyPem(key)),
      [CA_BUNDLE_KEY]: bundleFingerprints(bundle) === undefined,
    };
    const damaged = Object.entries(isDamaged).flatMap(([name, is]) => (is ? [name] : []));
    return inKey(TLS_CERT_KEY, () => summaryOf(leaf, bridges, bundle, damaged));
  } catch (error) {
    return unusable('Unreadable', messageOf(error));
  }
}

function summaryOf(
  leaf: X509Certificate,
  bridges: readonly X509Certificate[],
  bundle: string,
  damaged: readonly string[],
) {
  const { dnsNames, addresses, extendedKeyUsage } = certificateFields(leaf);
  const purpose = LEAF_PURPOSES.find((one) => extendedKeyUsage?.includes(USAGE_OF[one]));
  if (purpose === undefined)
    return unusable(
      'WrongUsage',
      `${TLS_CERT_KEY}: the first certificate is for neither servers nor clients`,
    );
  return {
    kind: 'usable' as const,
    purpose,
    leaf: leaf.raw.toString('base64'),
    dnsNames,
    addresses: addresses.map(addressText),
    notBefore: leaf.validFromDate,
    notAfter: leaf.validToDate,
    algorithm: keyAlgorithmOf(leaf.publicKey),
    bridges: bridges.map(({ fingerprint256 }) => fingerprint256),
    bundle: bundle === '' ? undefined : bundleFingerprints(bundle),
    damaged,
  };
}

let lastBundle: { readonly text: string; readonly fingerprints: string | undefined } | undefined;

/** Thousands of Secrets hold the same bundle, and they then share one result string. */
function bundleFingerprints(text: string): string | undefined {
  if (lastBundle?.text !== text) lastBundle = { text, fingerprints: fingerprintsOf(text) };
  return lastBundle.fingerprints;
}

export function factsOf(summary: ServingCertSummary, authority: Authority): ServingCertFacts {
  return summary.kind === 'unusable' ? summary : { ...summary, signedBy: signerOf(summary.leaf, authority) };
}

/** Checks only the signature: names and key ids are claims that any client can write into a certificate. */
export function signerOf(leaf: string, { generations }: Authority): string | undefined {
  const certificate = new X509Certificate(Buffer.from(leaf, 'base64'));
  return generations.find((generation) => certificate.verify(caOf(generation).publicKey))?.id;
}

const unusable = (reason: UnusableReason, message: string): UnusableServingCert => ({
  kind: 'unusable',
  reason,
  message,
});

/** The stored part of a Secret, without key and data. Never write a Secret from it: content of others would be lost. */
export interface StoredSecret extends MaybeStored {
  readonly summary?: ServingCertSummary | undefined;
}

export function toStoredSecret(secret: Secret): StoredSecret {
  const { metadata } = secret;
  return {
    ...(metadata === undefined ? {} : { metadata: storedMetadata(metadata) }),
    ...pick(secret, 'type', 'immutable'),
    summary: summarizeServingCert(secret.data),
    hasForeignKeys: hasForeignKeys(secret),
  };
}

function storedMetadata(metadata: ObjectMeta): ObjectMeta {
  const { annotations } = metadata;
  return {
    ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'labels', 'ownerReferences'),
    ...(annotations === undefined ? {} : { annotations: ownAnnotations(annotations) }),
  };
}

/** Other annotations can be as large as the object itself: kubectl stores a copy of the object in one. */
export const ownAnnotations = (
  annotations: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(annotations).filter(
      ([name]) => name.startsWith('gatehouse.dev/') || isOpenshiftAnnotation(name),
    ),
  );
