/** A CA bundle of several sources, which Gatehouse writes into the namespaces that a label selector selects. */
import type { X509Certificate } from 'node:crypto';
import { messageOf } from '../../json/abort.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { BUNDLE_EXCLUDES, BUNDLE_SOURCES, DISTRIBUTE_TO } from '../annotations.ts';
import { textsOf } from '../secret-data.ts';
import { splitCertificates, toCertificatePem, type CertificatePem } from '../x509/pem.ts';

/** A ConfigMap in the namespace of Gatehouse, where only operators write. */
export interface DistributionSource extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
  /** Of files that are not UTF-8, in base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

export type Distribution =
  | { readonly kind: 'none' }
  /** Copies do not change until a user fixes the problem. */
  | { readonly kind: 'invalid'; readonly message: string }
  | {
      readonly kind: 'wanted';
      /** As in `kubectl get namespaces -l`; empty: all namespaces. */
      readonly selector: string;
      readonly withAuthority: boolean;
      readonly withPublic: boolean;
      readonly own: readonly X509Certificate[];
      /** SHA-256 fingerprints, in the form of Node. */
      readonly excluded: readonly string[];
    };

const SOURCES: readonly string[] = ['authority', 'public'];
/** A ConfigMap of 1 MiB is the limit of the API server; a copy also has metadata. */
export const MAX_DISTRIBUTED_BYTES = 1_000_000;

export function distributionOf(source: DistributionSource | undefined): Distribution {
  const { annotations = {}, deletionTimestamp } = source?.metadata ?? {};
  const selector = annotations[DISTRIBUTE_TO];
  if (selector === undefined || deletionTimestamp !== undefined) return { kind: 'none' };
  const given = annotations[BUNDLE_SOURCES] ?? 'authority';
  const names = given.split(',').map((name) => name.trim());
  if (given.trim() !== '' && !names.every((name) => SOURCES.includes(name)))
    return invalid(`${BUNDLE_SOURCES} is ${quote(given)}: write authority, public, both, or nothing`);
  const excluded = (annotations[BUNDLE_EXCLUDES] ?? '').split(/[\s,]+/).filter((one) => one !== '');
  const broken = excluded.find((one) => !FINGERPRINT.test(one));
  if (broken !== undefined)
    return invalid(
      `${BUNDLE_EXCLUDES}: ${quote(broken)} is not a SHA-256 fingerprint: write 64 hexadecimal digits`,
    );
  const own: X509Certificate[] = [];
  for (const [key, text] of Object.entries({ ...source?.data, ...textsOf(source?.binaryData) })) {
    if (KEY_STORE.test(key)) continue;
    try {
      const found = splitCertificates(text);
      if (found.length === 0) return invalid(`there is no PEM certificate in ${key}`);
      own.push(...found);
    } catch (error) {
      return invalid(`${key} is broken: ${messageOf(error)}`);
    }
  }
  return {
    kind: 'wanted',
    selector: selector.trim(),
    own,
    excluded: excluded.map(toFingerprint),
    withAuthority: names.includes('authority'),
    withPublic: names.includes('public'),
  };
}

/** Trust stores beside their PEM file, for Java and Windows. */
const KEY_STORE = /\.(?:jks|p12|pfx)$/i;
/** With or without colons, as tools print it. */
const FINGERPRINT = /^([0-9a-f]{2}:?){31}[0-9a-f]{2}$/i;
const toFingerprint = (text: string): string =>
  (text.replaceAll(':', '').toUpperCase().match(/../g) ?? []).join(':');

const invalid = (message: string) => ({ kind: 'invalid', message }) as const;

/** Each certificate once, without expired ones. @returns an Error if the result is empty or too large for a copy */
export function composeBundle(certificates: readonly X509Certificate[], now: Date): CertificatePem | Error {
  const living = certificates.filter(({ validToDate }) => validToDate > now);
  if (living.length === 0) return new Error('the bundle would contain no certificate that is valid');
  const pem = toCertificatePem(uniqueBy(living, ({ fingerprint256 }) => fingerprint256));
  return pem.length > MAX_DISTRIBUTED_BYTES
    ? new Error(`the bundle has ${pem.length} bytes: at most ${MAX_DISTRIBUTED_BYTES} are distributed`)
    : pem;
}
