/** Serving certificates, by expiry. */
import { X509Certificate } from 'node:crypto';

import { SERVING_CERT_SERVICE, SERVING_CERT_SERVICE_UID } from '../../../../pki/annotations.ts';
import { after, HOUR } from '../../../../pki/durations.ts';
import type { StoredSecret } from '../../../../pki/serving-certs/facts.ts';
import { renewalTime } from '../../../../pki/serving-certs/plan.ts';
import type { LeafPurpose } from '../../../../pki/x509/certificate-fields.ts';
import { latestServingCertEnd } from '../../../../pki/serving-certs/issue.ts';
import { markedRenewAfter } from '../../../../pki/serving-certs/secret.ts';
import { unreadOf, valueOf, type Reading } from '../../read-cluster/reading.ts';
import type { Judged, Listing, Problems } from './attention.ts';
import type { KnownSigner } from './authority.ts';

export interface ServingCertRow {
  readonly namespace: string;
  /** The name of the Secret. */
  readonly name: string;
  readonly service: string;
  /** Who presents it; undefined if unusable. */
  readonly purpose?: LeafPurpose;
  /**
   * `RenewalDue`: the renewal time is reached; `Overdue`: for more than an hour; `UnknownSigner`: no generation of the
   * authority has signed it; `Unusable`: it cannot be parsed, or the key does not fit the certificate.
   */
  readonly state: 'Valid' | 'RenewalDue' | 'Overdue' | 'Expired' | 'UnknownSigner' | 'Unusable';
  readonly dnsNames: readonly string[];
  /** RFC 3339, like all times; undefined if unusable. */
  readonly notBefore?: string;
  readonly notAfter?: string;
  /** When the leader renews it; undefined if it expires with its authority and is renewed when that rotates. */
  readonly renewAt?: string | undefined;
  /** The generation of the authority. */
  readonly signedBy?: string | undefined;
  /** Why it is unusable. */
  readonly message?: string;
}

/** Grace period: a leader that starts, or renews thousands of certificates, needs some time. */
const OVERDUE_MS = HOUR;

/** @param signers of the authority; empty: unknown, so that they are not checked */
export function servingCertsPart(
  secrets: Reading<readonly StoredSecret[]>,
  signers: readonly KnownSigner[],
  now: Date,
): Judged<Listing<ServingCertRow>> {
  const items = (valueOf(secrets) ?? []).map((secret) => rowOf(secret, signers, now)).toSorted(bySoonest);
  return {
    part: { unread: unreadOf('Secrets with serving certificates', secrets), items },
    problems: items.flatMap(problemsOf),
  };
}

function rowOf(secret: StoredSecret, signers: readonly KnownSigner[], now: Date): ServingCertRow {
  const { metadata = {}, summary } = secret;
  const { namespace = '', name = '', annotations = {} } = metadata;
  const identity = { namespace, name, service: annotations[SERVING_CERT_SERVICE] ?? '' };
  if (summary === undefined || summary.kind === 'unusable')
    return {
      ...identity,
      state: 'Unusable',
      dnsNames: [],
      message: summary?.message ?? 'it has neither certificate nor key',
    };
  const { purpose, notBefore, notAfter, dnsNames, leaf } = summary;
  const signer = signerAmong(signers, leaf);
  const reachesEnd = signer !== undefined && notAfter >= latestServingCertEnd(signer.notAfter);
  const wish = {
    serviceUid: annotations[SERVING_CERT_SERVICE_UID] ?? '',
    renewAfter: markedRenewAfter(secret),
  };
  const renewAt = reachesEnd ? undefined : renewalTime(summary, wish);
  return {
    ...identity,
    purpose,
    state:
      signers.length > 0 && signer === undefined && notAfter > now
        ? 'UnknownSigner'
        : stateOf(notAfter, renewAt, now),
    dnsNames,
    notBefore: notBefore.toISOString(),
    notAfter: notAfter.toISOString(),
    renewAt: renewAt?.toISOString(),
    signedBy: signer?.id,
  };
}

/** Verifies the signature: the issuer name in a certificate proves nothing. */
export function signerAmong(signers: readonly KnownSigner[], leaf: string): KnownSigner | undefined {
  const certificate = new X509Certificate(Buffer.from(leaf, 'base64'));
  return signers.find((signer) => certificate.verify(signer.certificate.publicKey));
}

function stateOf(notAfter: Date, renewAt: Date | undefined, now: Date): ServingCertRow['state'] {
  if (notAfter <= now) return 'Expired';
  if (renewAt === undefined || now < renewAt) return 'Valid';
  return now < after(renewAt, OVERDUE_MS) ? 'RenewalDue' : 'Overdue';
}

function bySoonest(a: ServingCertRow, b: ServingCertRow): number {
  const key = ({ notAfter = '', namespace, name }: ServingCertRow) => `${notAfter} ${namespace}/${name}`;
  return key(a) < key(b) ? -1 : 1;
}

function problemsOf(row: ServingCertRow): Problems {
  const { namespace, name, service, notAfter = '', renewAt = '', message = '' } = row;
  const messages: Readonly<Record<ServingCertRow['state'], string | undefined>> = {
    Valid: undefined,
    RenewalDue: undefined,
    Overdue: `it expires at ${notAfter} and was due for renewal at ${renewAt}`,
    Expired: `it expired at ${notAfter}`,
    UnknownSigner: 'no generation of the authority has signed it, so clients do not trust it',
    Unusable: `it cannot be used: ${message}`,
  };
  const what = messages[row.state];
  if (what === undefined) return [];
  const next = `check the annotations of Service ${service} and its events`;
  const separator = row.state === 'Unusable' ? ';' : ':';
  return [{ object: `Secret ${namespace}/${name}`, message: `${what}${separator} ${next}` }];
}
