/** What the rows of `gatehouse status --migration` have in common. */
import type { X509Certificate } from 'node:crypto';

import type { ObjectMeta } from '../../../json/kube-object.ts';
import { DEFAULT_RENEW_AFTER, DEFAULT_SERVING_CERT_LIFETIME } from '../../../pki/lifetimes.ts';
import { DEFAULT_CLUSTER_DOMAIN } from '../../../pki/serving-certs/dns-names.ts';
import type { RequestRules } from '../../../pki/serving-certs/request.ts';
import { markedService } from '../../../pki/serving-certs/secret.ts';
import { nameOf } from '../../../pki/x509/path-problem.ts';
import { valueOf, type Reading } from '../read-cluster/reading.ts';
import type { JudgedAuthority } from '../status/report/authority.ts';
import { signerAmong } from '../status/report/serving-certs.ts';
import type { MigrationReadings, PresentSecret, System } from './read-migration.ts';

export interface MigrationRow {
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
  /** Who fills it: `service-ca`, `cert-manager`, `Gatehouse`, `none`, or another writer; undefined: unknown. */
  readonly owner?: string | undefined;
  /**
   * `Done`: Gatehouse manages it. `Ready`: Gatehouse can take it over, with these changes. `Blocked`: it cannot, as the
   * object is. `Unknown`: something that decides could not be read.
   */
  readonly state: 'Done' | 'Ready' | 'Blocked' | 'Unknown';
  /** What changes if Gatehouse takes over, or what prevents it. */
  readonly changes: readonly string[];
}

/** What the rows are compared with. */
export interface MigrationContext {
  readonly readings: MigrationReadings;
  readonly system: System;
  readonly authority: JudgedAuthority;
  /** The certificates in Gatehouse's bundle. Empty: it has none yet, so its CA will be new. Undefined: unknown. */
  readonly ownRoots: readonly X509Certificate[] | undefined;
  readonly now: Date;
}

/** The operator's settings are unknown here. */
export const DEFAULT_RULES: RequestRules = {
  clusterDomain: DEFAULT_CLUSTER_DOMAIN,
  dnsSuffixes: [],
  namespaceSuffixes: new Map(),
  shortNames: false,
  clusterIPs: false,
  nameConstraints: false,
  renewAfter: DEFAULT_RENEW_AFTER,
  maxLifetimeMs: DEFAULT_SERVING_CERT_LIFETIME,
  openshift: false,
};

export const placeOf = (kind: string, metadata: ObjectMeta = {}) => ({
  ...{ kind, namespace: metadata.namespace, name: metadata.name ?? '' },
});

/** Who fills a serving Secret. Undefined: unknown. */
export function ownerOfSecret(
  reading: Reading<PresentSecret | undefined> | undefined,
  { authority }: Pick<MigrationContext, 'authority'>,
): string | undefined {
  if (reading === undefined || reading.kind === 'unread') return undefined;
  const secret = reading.value;
  if (secret === undefined) return 'none';
  const { metadata, summary, chain, certificateName, writers } = secret;
  const leaf = summary?.kind === 'usable' ? summary.leaf : undefined;
  // After an adoption the marks of both are there: the signature decides.
  if (leaf !== undefined && markedService(secret) !== undefined && signerAmong(authority.signers, leaf))
    return 'Gatehouse';
  const names = Object.keys(metadata?.annotations ?? {});
  if (names.some((name) => name.endsWith('.openshift.io/originating-service-uid'))) return 'service-ca';
  if (nameOf({ subject: chain[0]?.issuer }).includes('CN=openshift-service-serving-signer@'))
    return 'service-ca';
  if (certificateName !== undefined) return 'cert-manager';
  return writers.join(', ') || 'none';
}

/** The Secrets whose present certificate `root` signed, as `namespace/name`. */
export const secretsBelow = (root: X509Certificate, { readings }: MigrationContext): readonly string[] =>
  [...readings.secrets].flatMap(([key, reading]) => {
    const [leaf] = valueOf(reading)?.chain ?? [];
    return leaf?.checkIssued(root) === true && leaf.verify(root.publicKey) ? [key] : [];
  });
