import { keyOf, type KubeObject, type ObjectMeta, type OwnerReference } from '../../json/kube-object.ts';
import {
  CA_BUNDLE_KEY,
  SERVING_CERT_ADOPT,
  SERVING_CERT_LABEL,
  SERVING_CERT_OUTPUTS,
  SERVING_CERT_RENEW_AFTER,
  SERVING_CERT_SECRET,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
  SHARED_STATE_KEY,
  TLS_CERT_KEY,
  TLS_PRIVATE_KEY_KEY,
  TLS_SECRET_TYPE,
} from '../annotations.ts';
import { parseRenewalPoint } from '../../api/renewal-point.ts';
import { DEFAULT_RENEW_AFTER } from '../durations.ts';
import { base64, type SecretData, textOf } from '../secret-data.ts';
import {
  type CertificatePem,
  parseCertificatePem,
  parsePrivateKeyPem,
  type PrivateKeyPem,
} from '../x509/pem.ts';
import { madeByServiceCa } from './openshift.ts';
import { listOf } from './dns-names.ts';
import { isOutput, OUTPUT_KEYS, type Output } from './outputs.ts';

export interface Secret extends KubeObject {
  readonly type?: string;
  readonly immutable?: boolean;
  readonly data?: SecretData;
}

export interface ServiceIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export const markedService = (secret: Secret): string | undefined =>
  secret.metadata?.annotations?.[SERVING_CERT_SERVICE];

const placeOf = ({ metadata }: Secret): string | undefined => metadata?.annotations?.[SERVING_CERT_SECRET];

/** Whether Gatehouse marked this Secret itself. Earlier versions wrote no such mark: the next write adds it. */
export const isOriginal = (secret: Secret): boolean => placeOf(secret) === keyOf(secret);

/** An admission policy may remove the label. */
export const hasLabel = ({ metadata }: Secret): boolean =>
  metadata?.labels?.[SERVING_CERT_LABEL.name] === SERVING_CERT_LABEL.value;

/** Gatehouse writes only `ours`. Users must delete a `wrong-type` or `immutable` Secret first. */
export type SecretOwnership = 'ours' | 'another-service' | 'foreign' | 'wrong-type' | 'immutable';

/** Ours: marked for a Service of this name (after a restore with another uid or namespace), or adopted. @param openshift or by service-ca */
export function ownership(
  secret: Secret,
  service: ServiceIdentity,
  { openshift = false }: { readonly openshift?: boolean } = {},
): SecretOwnership {
  const marked = markedService(secret);
  const controller = secret.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  // A Secret that passed to another Service keeps its controller where the API server refuses to change it.
  const isTheirs = marked !== undefined || controller?.name === service.name;
  if (controller !== undefined && !(isService(controller) && isTheirs)) return 'foreign';
  const isCopy = ![undefined, keyOf(secret)].includes(placeOf(secret)) && marked !== service.name;
  if (marked !== undefined && marked !== service.name && !isCopy) return 'another-service';
  if ((marked === undefined || isCopy) && !mayAdopt(secret, service, openshift)) return 'foreign';
  return writability(secret);
}

export function writability(secret: Secret): 'ours' | 'wrong-type' | 'immutable' {
  if (secret.type !== TLS_SECRET_TYPE) return 'wrong-type';
  return secret.immutable === true ? 'immutable' : 'ours';
}

function mayAdopt({ metadata }: Secret, service: ServiceIdentity, openshift: boolean): boolean {
  const annotations = metadata?.annotations ?? {};
  return (
    annotations[SERVING_CERT_ADOPT] === service.name ||
    (openshift && madeByServiceCa(annotations, service.uid))
  );
}

export type MaybeStored = Secret & { readonly hasForeignKeys?: boolean };

export const hasForeignKeys = (secret: MaybeStored): boolean =>
  secret.hasForeignKeys ?? Object.keys(foreignData(secret)).length > 0;

function foreignData(secret: Secret): SecretData {
  const ours = new Set([
    TLS_CERT_KEY,
    TLS_PRIVATE_KEY_KEY,
    CA_BUNDLE_KEY,
    SHARED_STATE_KEY,
    ...writtenOutputs(secret).flatMap((output) => OUTPUT_KEYS[output]),
  ]);
  return Object.fromEntries(Object.entries(secret.data ?? {}).filter(([key]) => !ours.has(key)));
}

/** With only the data of other writers. The marks stay, so that its Service can have it again. */
export function withoutServingCert(secret: Secret, service: Pick<ServiceIdentity, 'name'>): Secret {
  const { metadata } = secret;
  return {
    ...secret,
    metadata: {
      ...withOwners(metadata, ownersWithout(metadata?.ownerReferences, service)),
      annotations: annotationsWithout(secret, SERVING_CERT_OUTPUTS, SERVING_CERT_RENEW_AFTER),
    },
    data: { ...foreignData(secret), [TLS_CERT_KEY]: '', [TLS_PRIVATE_KEY_KEY]: '' },
  };
}

type Strings = Readonly<Record<string, string>>;

const annotationsWithout = ({ metadata }: Secret, ...names: readonly string[]): Strings =>
  Object.fromEntries(Object.entries(metadata?.annotations ?? {}).filter(([name]) => !names.includes(name)));

export interface ExtraMarks {
  readonly labels?: Strings | undefined;
  readonly annotations?: Strings | undefined;
  readonly renewAfter?: number;
}

export interface ServingCertContent {
  readonly service: ServiceIdentity;
  readonly secretName: string;
  readonly chain: CertificatePem;
  readonly privateKey: PrivateKeyPem;
  readonly bundle: CertificatePem;
}

/** Keeps the content of other writers, and `resourceVersion`, so that the write fails if the Secret has changed. */
export function withServingCert(existing: Secret | undefined, content: ServingCertContent): Secret {
  const { service, secretName, chain, privateKey, bundle } = content;
  const placed = {
    ...existing,
    metadata: { ...existing?.metadata, namespace: service.namespace, name: secretName },
  };
  return {
    ...withMarks(placed, service),
    apiVersion: 'v1',
    kind: 'Secret',
    type: TLS_SECRET_TYPE,
    data: {
      ...existing?.data,
      [TLS_CERT_KEY]: base64(chain),
      [TLS_PRIVATE_KEY_KEY]: base64(privateKey),
      [CA_BUNDLE_KEY]: base64(bundle),
    },
  };
}

export function withMarks(
  secret: MaybeStored,
  service: ServiceIdentity,
  { labels, annotations, renewAfter = DEFAULT_RENEW_AFTER }: ExtraMarks = {},
): Secret {
  const { metadata } = secret;
  const owners = [
    ...ownersWithout(metadata?.ownerReferences, service),
    // The garbage collector deletes an owned Secret with the Service, also the data of other writers.
    ...(hasForeignKeys(secret) ? [] : [ownerReference(service)]),
  ];
  return {
    ...secret,
    metadata: {
      ...withOwners(metadata, owners),
      labels: { ...metadata?.labels, ...labels, [SERVING_CERT_LABEL.name]: SERVING_CERT_LABEL.value },
      annotations: {
        ...annotationsWithout(secret, SERVING_CERT_RENEW_AFTER),
        ...annotations,
        ...(renewAfter === DEFAULT_RENEW_AFTER ? {} : { [SERVING_CERT_RENEW_AFTER]: `${renewAfter}%` }),
        [SERVING_CERT_SERVICE]: service.name,
        [SERVING_CERT_SERVICE_UID]: service.uid,
        [SERVING_CERT_SECRET]: `${service.namespace}/${metadata?.name ?? ''}`,
      },
    },
  };
}

/** The API server stores no empty list. */
function withOwners(metadata: ObjectMeta = {}, owners: readonly OwnerReference[]): ObjectMeta {
  const others = Object.entries(metadata).filter(([field]) => field !== 'ownerReferences');
  return { ...Object.fromEntries(others), ...(owners.length === 0 ? {} : { ownerReferences: owners }) };
}

export const markedRenewAfter = ({ metadata }: Secret): number =>
  parseRenewalPoint(metadata?.annotations?.[SERVING_CERT_RENEW_AFTER] ?? '') ?? DEFAULT_RENEW_AFTER;

/** A reference with an earlier uid leads to a deleted owner. An object can have only one controller. */
const ownersWithout = (
  owners: readonly OwnerReference[] = [],
  service: Pick<ServiceIdentity, 'name'>,
): readonly OwnerReference[] =>
  owners.filter((owner) => !isService(owner) || (owner.name !== service.name && owner.controller !== true));

export function withTrust(
  existing: Secret,
  { chain, bundle }: { readonly chain: CertificatePem | undefined; readonly bundle: CertificatePem },
): Secret {
  const certificate = chain === undefined ? {} : { [TLS_CERT_KEY]: base64(chain) };
  return { ...existing, data: { ...existing.data, ...certificate, [CA_BUNDLE_KEY]: base64(bundle) } };
}

/** The same certificates and key, as every client reads them. */
export function withReadableText(existing: Secret): Secret {
  const { data } = existing;
  const chain = parseCertificatePem(textOf(data, TLS_CERT_KEY) ?? '');
  const key = parsePrivateKeyPem(textOf(data, TLS_PRIVATE_KEY_KEY) ?? '');
  return {
    ...existing,
    data: { ...data, [TLS_CERT_KEY]: base64(chain), [TLS_PRIVATE_KEY_KEY]: base64(key) },
  };
}

/** Removes files that Gatehouse wrote and nothing requests now. Keeps the files of other writers. */
export function withOutputs(secret: Secret, outputs: readonly Output[], files: Strings): Secret {
  const stale = writtenOutputs(secret).flatMap((output) =>
    outputs.includes(output) ? [] : OUTPUT_KEYS[output],
  );
  const kept = Object.entries(secret.data ?? {}).filter(([key]) => !stale.includes(key));
  const annotations = annotationsWithout(secret, SERVING_CERT_OUTPUTS);
  const mark = outputs.length === 0 ? {} : { [SERVING_CERT_OUTPUTS]: outputs.join(',') };
  return {
    ...secret,
    metadata: { ...secret.metadata, annotations: { ...annotations, ...mark } },
    data: { ...Object.fromEntries(kept), ...files },
  };
}

export const writtenOutputs = (secret: Secret): readonly Output[] =>
  listOf(secret.metadata?.annotations?.[SERVING_CERT_OUTPUTS] ?? '').filter(isOutput);

/** Does not block deletion: a Service may be deleted before its Secret. */
const ownerReference = ({ name, uid }: ServiceIdentity): OwnerReference => ({
  apiVersion: 'v1',
  kind: 'Service',
  name,
  uid,
  controller: true,
  blockOwnerDeletion: false,
});

const isService = ({ apiVersion, kind }: OwnerReference): boolean =>
  apiVersion === 'v1' && kind === 'Service';
