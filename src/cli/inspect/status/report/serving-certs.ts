/** Serving certs, by the time at which they end. */
import { X509Certificate } from 'node:crypto';

import { SERVING_CERT_SERVICE, SERVING_CERT_SERVICE_UID } from '../../../../pki/annotations.ts';
import { after, HOUR } from '../../../../pki/durations.ts';
import type { StoredSecret } from '../../../../pki/serving-certs/facts.ts';
import { renewalTime } from '../../../../pki/serving-certs/plan.ts';
import { latestServingCertEnd } from '../../../../pki/serving-certs/issue.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';
import type { KnownRoot } from './authority.ts';

export interface ServingCertsPart {
  readonly unread: readonly Unread[];
  /** What cannot be used first, then by `notAfter`, soonest first. */
  readonly items: readonly ServingCertRow[];
}

export interface ServingCertRow {
  readonly namespace: string;
  /** Of the Secret. */
  readonly name: string;
  readonly service: string;
  /**
   * `Valid`; `RenewalDue`: its renewal time has come; `Overdue`: it came more than an hour ago; `Expired`; `UnknownSigner`:
   * no generation of the authority has signed it; `Unusable`: it cannot be read, or its key is another's.
   */
  readonly state: 'Valid' | 'RenewalDue' | 'Overdue' | 'Expired' | 'UnknownSigner' | 'Unusable';
  readonly dnsNames: readonly string[];
  /** RFC 3339, as all times; undefined for what cannot be read. */
  readonly notBefore?: string;
  readonly notAfter?: string;
  /** When the leader makes another; undefined for one that reaches as far as its authority and is renewed with it. */
  readonly renewAt?: string;
  /** A generation of the authority. */
  readonly signedBy?: string;
  /** What is wrong with one that is unusable. */
  readonly message?: string;
}

/** A leader that starts, or has thousands to renew, needs some time. */
const PATIENCE_MS = HOUR;

/** @param roots of the authority; empty: it could not be read, and who signed what is not judged */
export function servingCertsPart(
  secrets: Reading<readonly StoredSecret[]>,
  roots: readonly KnownRoot[],
  now: Date,
): Judged<ServingCertsPart> {
  const items = (valueOf(secrets) ?? []).map((secret) => rowOf(secret, roots, now)).toSorted(bySoonest);
  return {
    part: { unread: unreadOf('Secrets with serving certs', secrets), items },
    attention: items.flatMap(attentionOf),
  };
}

function rowOf(
  { metadata = {}, sketch }: StoredSecret,
  roots: readonly KnownRoot[],
  now: Date,
): ServingCertRow {
  const { namespace = '', name = '', annotations = {} } = metadata;
  const identity = { namespace, name, service: annotations[SERVING_CERT_SERVICE] ?? '' };
  if (sketch === undefined || sketch.kind === 'unusable')
    return {
      ...identity,
      state: 'Unusable',
      dnsNames: [],
      message: sketch?.message ?? 'it holds neither certificate nor key',
    };
  const { notBefore, notAfter, dnsNames, leaf } = sketch;
  const signer = signerAmong(roots, leaf);
  const reachesEnd = signer !== undefined && notAfter >= latestServingCertEnd(signer.certificate.validToDate);
  const renewAt = reachesEnd ? undefined : renewalTime(sketch, annotations[SERVING_CERT_SERVICE_UID] ?? '');
  return {
    ...identity,
    state:
      roots.length > 0 && signer === undefined && notAfter > now
        ? 'UnknownSigner'
        : stateOf(notAfter, renewAt, now),
    dnsNames,
    notBefore: notBefore.toISOString(),
    notAfter: notAfter.toISOString(),
    ...(renewAt === undefined ? {} : { renewAt: renewAt.toISOString() }),
    ...(signer === undefined ? {} : { signedBy: signer.id }),
  };
}

/** Judged by the signature: names in a certificate are claims. */
function signerAmong(roots: readonly KnownRoot[], leaf: string): KnownRoot | undefined {
  const certificate = new X509Certificate(Buffer.from(leaf, 'base64'));
  return roots.find((root) => certificate.verify(root.certificate.publicKey));
}

function stateOf(notAfter: Date, renewAt: Date | undefined, now: Date): ServingCertRow['state'] {
  if (notAfter <= now) return 'Expired';
  if (renewAt === undefined || now < renewAt) return 'Valid';
  return now < after(renewAt, PATIENCE_MS) ? 'RenewalDue' : 'Overdue';
}

function bySoonest(a: ServingCertRow, b: ServingCertRow): number {
  const key = ({ notAfter = '', namespace, name }: ServingCertRow) => `${notAfter} ${namespace}/${name}`;
  return key(a) < key(b) ? -1 : 1;
}

function attentionOf(row: ServingCertRow): readonly Attention[] {
  const { namespace, name, service, notAfter = '', renewAt = '', message = '' } = row;
  const attention = (text: string): readonly Attention[] => [
    { part: 'servingCerts', object: `Secret ${namespace}/${name}`, message: text },
  ];
  const look = `see whether Service ${service} still asks for it, and its events`;
  switch (row.state) {
    case 'Valid':
    case 'RenewalDue':
      return [];
    case 'Overdue':
      return attention(`it ends at ${notAfter} and was to be renewed at ${renewAt}: ${look}`);
    case 'Expired':
      return attention(`it ended at ${notAfter}: ${look}`);
    case 'UnknownSigner':
      return attention(`no generation of the authority has signed it, so no client trusts it: ${look}`);
    case 'Unusable':
      return attention(`it cannot be used: ${message}; ${look}`);
  }
}
