/** Reads the objects that another system fills with certificates or CA bundles. Writes nothing. */
import type { X509Certificate } from 'node:crypto';

import { objectKey, type GroupResource, type KubeObject } from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { isDnsSubdomain } from '../../../json/names.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Discovery } from '../../../kube/discovery.ts';
import { configMaps, secrets, services } from '../../../kube/well-known.ts';
import { AUTHORITY_SECRET, CABUNDLE_CONFIGMAP, TLS_CERT_KEY } from '../../../pki/annotations.ts';
import type { Compat } from '../../../pki/injection/request.ts';
import type { RawTarget } from '../../../pki/injection/target.ts';
import { textOf } from '../../../pki/secret-data.ts';
import { toStoredSecret, type StoredSecret } from '../../../pki/serving-certs/facts.ts';
import { openshiftSecretName } from '../../../pki/serving-certs/openshift.ts';
import { claimOf, type Service } from '../../../pki/serving-certs/request.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import { readableCertificates } from '../../../pki/x509/pem.ts';
import type { ConfigMap } from '../../../runtime/certificates/ca-bundle.ts';
import {
  readSources,
  readTargets,
  type SourceReadings,
  type TargetsReading,
} from '../read-cluster/injection-targets.ts';
import type { ClusterReadings } from '../read-cluster/read-cluster.ts';
import { createReader, permissionTo, tryToRead, valueOf, type Reading } from '../read-cluster/reading.ts';

export type System = 'service-ca' | 'cert-manager';

/** The setting with which Gatehouse honours the annotations of a system. */
export const COMPAT = { 'service-ca': 'openshift', 'cert-manager': 'cert-manager' } as const satisfies Record<
  System,
  Compat
>;

/** Annotations by which a target asks for a CA bundle. Gatehouse does not honour all of them. */
export const TARGET_ANNOTATIONS: Readonly<Record<System, RegExp>> = {
  'service-ca': /^service\.(alpha|beta)\.openshift\.io\/inject-(vulnerable-legacy-)?cabundle$/,
  'cert-manager': /^cert-manager\.io\/inject-(ca-from|ca-from-secret|apiserver-ca)$/,
};

/** The relevant fields of cert-manager's Certificate. */
export interface Certificate extends KubeObject {
  readonly spec?: {
    readonly secretName?: string;
    readonly dnsNames?: readonly string[];
    readonly isCA?: boolean;
    readonly usages?: readonly string[];
    readonly ipAddresses?: readonly string[];
    readonly uris?: readonly string[];
    readonly emailAddresses?: readonly string[];
    readonly otherNames?: readonly object[];
    readonly issuerRef?: { readonly name?: string; readonly kind?: string };
  };
}

/** An Issuer or a ClusterIssuer. `spec` has one field, which is named after the type of the issuer. */
export interface Issuer extends KubeObject {
  readonly spec?: Readonly<Record<string, unknown>> & { readonly ca?: { readonly secretName?: string } };
}

/** A serving Secret without its keys. */
export interface PresentSecret extends StoredSecret {
  /** The Certificate of cert-manager that fills it. */
  readonly certificateName: string | undefined;
  /** The field managers of its data. */
  readonly writers: readonly string[];
  /** The certificates in `tls.crt`; empty if it is missing or broken. */
  readonly chain: readonly X509Certificate[];
}

export interface MigrationReadings extends Pick<ClusterReadings, 'authority' | 'caBundle'> {
  readonly services: Reading<readonly Service[]>;
  readonly targets: readonly TargetsReading[];
  readonly sources: SourceReadings;
  /** Of Services and Certificates, by `namespace/name`. */
  readonly secrets: ReadonlyMap<string, Reading<PresentSecret | undefined>>;
  readonly certificates: Reading<readonly Certificate[]>;
  readonly issuers: Reading<readonly Issuer[]>;
  readonly clusterIssuers: Reading<readonly Issuer[]>;
}

const TIMEOUT_MS = 15_000;
const MAX_CONCURRENT_READS = 8;

export async function readMigration(
  {
    client,
    discovery,
  }: { client: Pick<KubeClient, 'get' | 'listAll'>; discovery: Pick<Discovery, 'resolve'> },
  system: System,
  namespace: string,
): Promise<MigrationReadings> {
  const { get, list } = createReader(client, TIMEOUT_MS);
  /** Empty if the API server does not serve the kind. */
  const listFound = <T extends KubeObject>(resource: string): Promise<Reading<readonly T[]>> => {
    const wanted: GroupResource = { group: 'cert-manager.io', resource };
    return tryToRead(permissionTo('list', wanted), async () => {
      const found = system === 'cert-manager' ? await discovery.resolve(wanted) : undefined;
      return found === undefined ? [] : (await client.listAll<T>(found, { timeoutMs: TIMEOUT_MS })).items;
    });
  };
  const isAnnotated = (_kind: unknown, { metadata }: KubeObject): boolean =>
    annotationsOf(metadata, system).length > 0;
  const [authority, caBundle, found, targets, certificates, issuers, clusterIssuers] = await Promise.all([
    get<Secret>(secrets, { namespace, name: AUTHORITY_SECRET }),
    get<ConfigMap>(configMaps, { namespace, name: CABUNDLE_CONFIGMAP }),
    list<Service>(services),
    readTargets(client, isAnnotated, TIMEOUT_MS),
    listFound<Certificate>('certificates'),
    listFound<Issuer>('issuers'),
    listFound<Issuer>('clusterissuers'),
  ]);
  const scope = { namespace, compat: [COMPAT[system]] };
  const ofServices = (system === 'service-ca' ? (valueOf(found) ?? []) : []).filter(isServiceCaService);
  const wanted = [
    ...ofServices.map((one) => [one.metadata, claimOf(one, { openshift: true })?.secretName] as const),
    ...(valueOf(certificates) ?? []).map(({ metadata, spec }) => [metadata, spec?.secretName] as const),
  ].map(([metadata, name = '']) => ({ namespace: metadata?.namespace ?? '', name }));
  const unique = new Map(
    wanted.filter(({ name }) => isDnsSubdomain(name)).map((ref) => [objectKey(ref), ref]),
  );
  const present = await mapConcurrent([...unique], MAX_CONCURRENT_READS, async ([key, ref]) => {
    const reading = await tryToRead(permissionTo('get', secrets, ref.namespace), async () => {
      const secret = await client.get<Secret>(secrets, ref, { timeoutMs: TIMEOUT_MS });
      return secret === undefined ? undefined : toPresentSecret(secret);
    });
    return [key, reading] as const;
  });
  return {
    ...{ authority, caBundle, services: found, targets, certificates, issuers, clusterIssuers },
    secrets: new Map(present),
    sources: await readSources(client, targets, scope, TIMEOUT_MS),
  };
}

/** The annotations of `system` that ask for a CA bundle. */
export const annotationsOf = (metadata: RawTarget['metadata'], system: System): readonly string[] =>
  Object.entries(metadata?.annotations ?? {})
    .filter(([name, value]) => TARGET_ANNOTATIONS[system].test(name) && value.toLowerCase() !== 'false')
    .map(([name]) => name);

/** Whether service-ca makes a certificate for the Service. */
export const isServiceCaService = ({ metadata }: Service): boolean =>
  openshiftSecretName(metadata?.annotations ?? {}) !== undefined;

/** Drops the private key. */
export function toPresentSecret(secret: Secret & Pick<RawTarget, 'metadata'>): PresentSecret {
  const { managedFields = [] } = secret.metadata ?? {};
  return {
    ...toStoredSecret(secret),
    certificateName: secret.metadata?.annotations?.['cert-manager.io/certificate-name'],
    writers: managedFields.flatMap(({ manager, fieldsV1 = {} }) =>
      manager === undefined || fieldsV1['f:data'] === undefined ? [] : [manager],
    ),
    chain: readableCertificates(textOf(secret.data, TLS_CERT_KEY) ?? '') ?? [],
  };
}
