/** Serving certificates by expiry, and which of them servers present. */
import { X509Certificate } from 'node:crypto';

import { keyOf, type KubeObject } from '../../../../json/kube-object.ts';
import {
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
  SERVING_SECRET,
} from '../../../../pki/annotations.ts';
import { after, HOUR } from '../../../../pki/durations.ts';
import type { StoredSecret } from '../../../../pki/serving-certs/facts.ts';
import { claimOf } from '../../../../pki/serving-certs/request.ts';
import { renewalTime } from '../../../../pki/serving-certs/plan.ts';
import type { LeafPurpose } from '../../../../pki/x509/certificate-fields.ts';
import { latestServingCertEnd } from '../../../../pki/serving-certs/issue.ts';
import { isOriginal, markedRenewAfter } from '../../../../pki/serving-certs/secret.ts';
import type { Scope, ClusterReadings } from '../../read-cluster/read-cluster.ts';
import {
  unreadOf,
  valueOf,
  type Judged,
  type Listing,
  type Problems,
  type Reading,
} from '../../read-cluster/reading.ts';
import type { KnownSigner } from './authority.ts';
import {
  parseReport,
  REPORT_EVERY_MS,
  SERVED_CERTS_CONFIGMAP,
  type ServedCertsReport,
  type StaleRow,
} from '../../../../runtime/endpoints/report.ts';
import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';

export interface ServingCertRow {
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  readonly purpose?: LeafPurpose;
  /**
   * `RenewalDue`: the renewal time is reached; `Overdue`: for more than an hour; `UnknownSigner`: no generation of the
   * authority has signed it; `Unusable`: it cannot be parsed, or the key does not fit the certificate; `Missing`: the
   * Service asks for it, but the Secret is not its own.
   */
  readonly state: 'Valid' | 'RenewalDue' | 'Overdue' | 'Expired' | 'UnknownSigner' | 'Unusable' | 'Missing';
  readonly dnsNames: readonly string[];
  readonly notBefore?: string;
  readonly notAfter?: string;
  /** When the leader renews it; undefined if it expires with its authority and is renewed when that rotates. */
  readonly renewAt?: string | undefined;
  readonly signedBy?: string | undefined;
  readonly message?: string;
}

/** A leader needs some time to start, or to renew thousands of certificates. */
const OVERDUE_MS = HOUR;

/** @param signers of the authority; empty: unknown, so that they are not checked */
export function servingCertsPart(
  readings: Pick<ClusterReadings, 'servingSecrets' | 'services' | 'compat' | 'misplaced'>,
  signers: readonly KnownSigner[],
  now: Date,
): Judged<Listing<ServingCertRow>> {
  const { servingSecrets, services, compat, misplaced } = readings;
  const claimed = new Set(valueOf(services)?.flatMap((service) => claimsOf(service, compat)));
  const isCopy = (secret: StoredSecret): boolean =>
    !isOriginal(secret) && services.kind !== 'unread' && !claimed.has(keyOf(secret));
  const present = (valueOf(servingSecrets) ?? [])
    .filter((secret) => secret.metadata?.name === SERVING_SECRET || !isCopy(secret)) // requested by no annotation
    .map((secret) => rowOf(secret, signers, now));
  const missing =
    servingSecrets.kind === 'unread' ? [] : missingCerts(valueOf(services) ?? [], present, compat);
  const items = [...present, ...missing].toSorted(bySoonest);
  const unread = [
    ...unreadOf('Secrets with serving certificates', servingSecrets),
    ...unreadOf('Services', services),
  ];
  return {
    part: { unread, items },
    problems: [...items.flatMap(problemsOf), ...misplaced],
  };
}

/** The Secrets of its certs, as keys. */
function claimsOf({ metadata = {} }: KubeObject, compat: Scope['compat']): readonly string[] {
  const rules = { openshift: compat.includes('openshift') };
  const claims = PURPOSES.flatMap((purpose) => claimOf({ metadata }, rules, purpose) ?? []);
  return claims.map(({ secretName }) => `${metadata.namespace ?? ''}/${secretName}`);
}

function missingCerts(
  services: readonly KubeObject[],
  present: readonly ServingCertRow[],
  compat: Scope['compat'],
): readonly ServingCertRow[] {
  const rowKey = (...parts: readonly string[]) => parts.join('/');
  const known = new Set(present.map(({ namespace, name, service }) => rowKey(namespace, name, service)));
  const rules = { openshift: compat.includes('openshift') };
  return services.flatMap(({ metadata = {} }) => {
    const { namespace = '', name: service = '', deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) return [];
    return PURPOSES.flatMap((purpose): readonly ServingCertRow[] => {
      const name = claimOf({ metadata }, rules, purpose)?.secretName;
      if (name === undefined || known.has(rowKey(namespace, name, service))) return [];
      const message = 'the Service requests it, but does not own it';
      return [{ namespace, name, service, purpose, state: 'Missing', dnsNames: [], message }];
    });
  });
}

const PURPOSES = ['serving', 'client'] as const;

function rowOf(secret: StoredSecret, signers: readonly KnownSigner[], now: Date): ServingCertRow {
  const { metadata = {}, summary } = secret;
  const { namespace = '', name = '', annotations = {} } = metadata;
  const identity = { namespace, name, service: annotations[SERVING_CERT_SERVICE] ?? '' };
  if (summary?.kind !== 'usable' || summary.damaged.length > 0)
    return {
      ...identity,
      state: 'Unusable',
      dnsNames: [],
      message: problemIn(summary),
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

function problemIn(summary: StoredSecret['summary']): string {
  if (summary === undefined) return 'it has neither certificate nor key';
  if (summary.kind === 'unusable') return summary.message;
  return `some clients and servers cannot read the text of ${summary.damaged.join(', ')}`;
}

/** Verifies the signature: the issuer name in a certificate proves nothing. */
function signerAmong(signers: readonly KnownSigner[], leaf: string): KnownSigner | undefined {
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
  const next = `check the annotations of Service ${service} and its events`;
  const wrong = (what: string) => [{ object: `Secret ${namespace}/${name}`, message: `${what} ${next}` }];
  switch (row.state) {
    case 'Valid':
    case 'RenewalDue':
      return [];
    case 'Overdue':
      return wrong(`it expires at ${notAfter} and was due for renewal at ${renewAt}:`);
    case 'Expired':
      return wrong(`it expired at ${notAfter}:`);
    case 'UnknownSigner':
      return wrong('no generation of the authority has signed it, so clients do not trust it:');
    case 'Unusable':
      return wrong(`it cannot be used: ${message};`);
    case 'Missing':
      return [
        {
          object: `Service ${namespace}/${service}`,
          message: `it lacks its certificate in Secret ${name}`,
          command: `kubectl -n ${namespace} describe service ${service}`,
        },
      ];
  }
}

export interface ServedCertsPart extends Listing<StaleRow> {
  /** RFC 3339. This and `endpoints` are undefined if the leader maintains no report, or has found no endpoint. */
  readonly checkedAt?: string | undefined;
  readonly endpoints?: ServedCertsReport['endpoints'] | undefined;
}

export function servedCertsPart(
  configMap: Reading<ConfigMap | undefined>,
  namespace: string,
  now: Date,
): Judged<ServedCertsPart> {
  const unread = unreadOf(`ConfigMap ${namespace}/${SERVED_CERTS_CONFIGMAP}`, configMap);
  const report = parseReport(valueOf(configMap) ?? {});
  const isMaintained = report !== undefined && after(new Date(report.checkedAt), 3 * REPORT_EVERY_MS) > now;
  if (!isMaintained || Object.values(report.endpoints).every((count) => count === 0))
    return { part: { unread, items: [] }, problems: [] };
  const { checkedAt, endpoints, stale } = report;
  return { part: { unread, checkedAt, endpoints, items: stale }, problems: stale.map(staleProblem) };
}

function staleProblem({ namespace, service, secret, notAfter, ...row }: StaleRow): Problems[number] {
  const message =
    `${podsOf(row)} still presenting an earlier certificate than Secret ${secret} contains; it ends at ${notAfter}: ` +
    'restart the pods before';
  return { object: `Service ${namespace}/${service}`, message };
}

const podsOf = ({ pods, count }: Pick<StaleRow, 'pods' | 'count'>): string =>
  count === 1 ? `pod ${pods.join()} is` : `pods ${namedPods({ pods, count })} are`;

export function namedPods({ pods, count }: Pick<StaleRow, 'pods' | 'count'>): string {
  const left = count - pods.length;
  return `${pods.join(', ')}${left > 0 ? ` and ${left} more` : ''}`;
}
