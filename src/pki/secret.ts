import type { KubernetesObject, OwnerReference } from '../api/meta.ts';
import {
  CA_BUNDLE_KEY,
  SERVING_CERT_LABEL,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
  TLS_CERT_KEY,
  TLS_PRIVATE_KEY_KEY,
  TLS_SECRET_TYPE,
} from './annotations.ts';
import type { CertificatePem, PrivateKeyPem } from './pem.ts';

export interface Secret extends KubernetesObject {
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

/**
 * Whose a Secret is, seen from a Service that asks for it. Only `ours` may be written. A `wrong-type` cannot be changed and an
 * `immutable` Secret cannot be updated: a person has to delete it.
 */
export type SecretOwnership = 'ours' | 'foreign' | 'wrong-type' | 'immutable';

/**
 * Ours is what Gatehouse marked for a Service of this name, unless another controller has taken it over. The uid may differ:
 * the Service was made again, or restored from a backup.
 */
export function ownership(secret: Secret, service: ServiceIdentity): SecretOwnership {
  const { annotations, ownerReferences = [] } = secret.metadata ?? {};
  const controller = ownerReferences.find((reference) => reference.controller === true);
  if (annotations?.[SERVING_CERT_SERVICE] !== service.name) return 'foreign';
  if (controller !== undefined && !refersTo(controller, service)) return 'foreign';
  if (secret.type !== TLS_SECRET_TYPE) return 'wrong-type';
  return secret.immutable === true ? 'immutable' : 'ours';
}

type Labels = Readonly<Record<string, string>>;

export interface ServingCertContent {
  readonly service: ServiceIdentity;
  /** Beside the one that our watch selects by. */
  readonly labels?: Labels;
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
  const { service, labels, secretName, chain, privateKey, bundle } = content;
  const placed = {
    ...existing,
    metadata: { ...existing?.metadata, namespace: service.namespace, name: secretName },
  };
  return {
    ...withMarks(placed, service, labels),
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
export function withMarks(secret: Secret, service: ServiceIdentity, labels: Labels = {}): Secret {
  const { metadata } = secret;
  return {
    ...secret,
    metadata: {
      ...metadata,
      labels: { ...metadata?.labels, ...labels, [SERVING_CERT_LABEL.name]: SERVING_CERT_LABEL.value },
      annotations: {
        ...metadata?.annotations,
        [SERVING_CERT_SERVICE]: service.name,
        [SERVING_CERT_SERVICE_UID]: service.uid,
      },
      ownerReferences: [
        // A reference with an earlier uid names an owner that is gone.
        ...(metadata?.ownerReferences ?? []).filter((reference) => !refersTo(reference, service)),
        ownerReference(service),
      ],
    },
  };
}

/** `existing` with today's CA bundle, all else untouched. */
export function withBundle(existing: Secret, bundle: CertificatePem): Secret {
  return { ...existing, data: { ...existing.data, [CA_BUNDLE_KEY]: base64(bundle) } };
}

/** Blocks nothing: a Service can be deleted before its Secret is. */
const ownerReference = ({ name, uid }: ServiceIdentity): OwnerReference => ({
  apiVersion: 'v1',
  kind: 'Service',
  name,
  uid,
  controller: true,
  blockOwnerDeletion: false,
});

const refersTo = ({ apiVersion, kind, name }: OwnerReference, service: ServiceIdentity): boolean =>
  apiVersion === 'v1' && kind === 'Service' && name === service.name;

const base64 = (text: string): string => Buffer.from(text).toString('base64');
