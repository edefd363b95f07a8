import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import {
  CA_BUNDLE_KEY,
  SERVING_CERT_ADOPT,
  SERVING_CERT_LABEL,
  SERVING_CERT_OUTPUTS,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
  TLS_CERT_KEY,
  TLS_PRIVATE_KEY_KEY,
  TLS_SECRET_TYPE,
} from '../annotations.ts';
import type { CertificatePem, PrivateKeyPem } from '../x509/pem.ts';
import { madeByServiceCa } from './openshift.ts';
import { listOf } from './dns-names.ts';
import { isOutput, OUTPUT_KEYS, type Output } from './outputs.ts';

export interface Secret extends KubeObject {
  readonly type?: string;
  readonly immutable?: boolean;
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
}

export interface ServiceIdentity {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The name of the Service that a Secret is marked for; undefined: Gatehouse did not mark it. */
export const markedService = (secret: Secret): string | undefined =>
  secret.metadata?.annotations?.[SERVING_CERT_SERVICE];

/**
 * Whose a Secret is, seen from a Service that asks for it. Only `ours` may be written. A `wrong-type` cannot be changed and an
 * `immutable` Secret cannot be updated: it has to be deleted first. `another-service` is marked for a Service of another name,
 * which may have given it up.
 */
export type SecretOwnership = 'ours' | 'another-service' | 'foreign' | 'wrong-type' | 'immutable';

/**
 * Ours is what Gatehouse marked for a Service of this name, unless another controller has taken it over; and what its owner
 * lets us adopt. The uid may differ: the Service was made again, or restored from a backup.
 * @param openshift whether what service-ca made for this very Service is ours too
 */
export function ownership(
  secret: Secret,
  service: ServiceIdentity,
  { openshift = false }: { readonly openshift?: boolean } = {},
): SecretOwnership {
  const marked = markedService(secret);
  const controller = secret.metadata?.ownerReferences?.find((reference) => reference.controller === true);
  if (controller !== undefined && !(isService(controller) && controller.name === (marked ?? service.name)))
    return 'foreign';
  if (marked !== undefined && marked !== service.name) return 'another-service';
  if (marked === undefined && !mayAdopt(secret, service, openshift)) return 'foreign';
  return writability(secret);
}

/** Of a Secret that is ours by right, whether it can be ours in fact. */
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

type Strings = Readonly<Record<string, string>>;

/** What a Secret has to carry beside our own marks. */
export interface ExtraMarks {
  readonly labels?: Strings | undefined;
  readonly annotations?: Strings | undefined;
}

export interface ServingCertContent {
  readonly service: ServiceIdentity;
  readonly secretName: string;
  readonly chain: CertificatePem;
  readonly privateKey: PrivateKeyPem;
  readonly bundle: CertificatePem;
}

/**
 * The Secret as it should be: `existing` (which has to be ours) with the serving cert in it, or a new one. What others put there
 * stays: data, labels, annotations, owners. `metadata.resourceVersion` stays too, so that the write fails if it was overtaken.
 */
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

/** `secret` with all that says whose it is: the label that our watch selects by, the annotations, the owner. */
export function withMarks(
  secret: Secret,
  service: ServiceIdentity,
  { labels, annotations }: ExtraMarks = {},
): Secret {
  const { metadata } = secret;
  return {
    ...secret,
    metadata: {
      ...metadata,
      labels: { ...metadata?.labels, ...labels, [SERVING_CERT_LABEL.name]: SERVING_CERT_LABEL.value },
      annotations: {
        ...metadata?.annotations,
        ...annotations,
        [SERVING_CERT_SERVICE]: service.name,
        [SERVING_CERT_SERVICE_UID]: service.uid,
      },
      ownerReferences: [
        // A reference with an earlier uid names an owner that is gone, and there can be one controller.
        ...(metadata?.ownerReferences ?? []).filter(
          (reference) =>
            !isService(reference) || (reference.name !== service.name && reference.controller !== true),
        ),
        ownerReference(service),
      ],
    },
  };
}

/** `existing` with today's CA bundle, all else untouched. */
export function withBundle(existing: Secret, bundle: CertificatePem): Secret {
  return { ...existing, data: { ...existing.data, [CA_BUNDLE_KEY]: base64(bundle) } };
}

/**
 * `secret` with the files of `outputs` in it, and without those that Gatehouse wrote earlier and nobody asks for any more.
 * Files of the same names that others wrote stay where nothing is asked for.
 */
export function withOutputs(secret: Secret, outputs: readonly Output[], files: Strings): Secret {
  const stale = writtenOutputs(secret).flatMap((output) =>
    outputs.includes(output) ? [] : OUTPUT_KEYS[output],
  );
  const kept = Object.entries(secret.data ?? {}).filter(([key]) => !stale.includes(key));
  const annotations = Object.entries(secret.metadata?.annotations ?? {}).filter(
    ([name]) => name !== SERVING_CERT_OUTPUTS,
  );
  const mark = outputs.length === 0 ? {} : { [SERVING_CERT_OUTPUTS]: outputs.join(',') };
  return {
    ...secret,
    metadata: { ...secret.metadata, annotations: { ...Object.fromEntries(annotations), ...mark } },
    data: { ...Object.fromEntries(kept), ...files },
  };
}

/** Which outputs Gatehouse wrote into a Secret. */
export const writtenOutputs = (secret: Secret): readonly Output[] =>
  listOf(secret.metadata?.annotations?.[SERVING_CERT_OUTPUTS] ?? '').filter(isOutput);

/** Blocks nothing: a Service can be deleted before its Secret is. */
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

const base64 = (text: string): string => Buffer.from(text).toString('base64');
