/** The kinds that can carry a CA bundle: which fields hold it, and who owns those fields. */
import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { base64 } from '../secret-data.ts';
import { CA_BUNDLE_KEY, INJECTION_MANAGER, TRUST_BUNDLE_SIGNER } from '../annotations.ts';
import {
  injectionRequest,
  TARGET_ANNOTATIONS,
  type Compat,
  type InjectionRequest,
  type TargetKindName,
} from './request.ts';
import type { CertificatePem } from '../x509/pem.ts';

export interface Slot {
  /** Of a webhook, the key of a ConfigMap, or the path of the only field. */
  readonly name: string;
  /** The raw value: base64 of PEM, or PEM in ConfigMaps and ClusterTrustBundles. */
  readonly present: string | undefined;
  /** A `url` leads to a server outside the cluster. Its cert is not from our authority. */
  readonly reach: 'service' | 'url';
}

export interface FieldSet {
  readonly [element: string]: FieldSet;
}

export interface OwnEntry {
  readonly index: number;
  readonly fields: FieldSet;
}

export interface InjectionTarget extends KubeObject {
  readonly request: InjectionRequest;
  readonly slots: readonly Slot[];
  readonly own: readonly OwnEntry[];
}

export interface TargetKind {
  readonly kind: TargetKindName;
  readonly slots: (object: RawTarget, key: string) => readonly Slot[];
  readonly configuration: (slots: readonly string[], bundle: CertificatePem) => object;
  readonly ownedSlots: (fields: FieldSet) => readonly string[];
  /** What Gatehouse keeps after it filled these slots; undefined: nothing. */
  readonly ownership: (slots: readonly string[]) => FieldSet | undefined;
}

export interface RawTarget extends KubeObject {
  readonly metadata?: ObjectMeta & { readonly managedFields?: readonly ManagedFieldsEntry[] };
  readonly webhooks?: readonly { readonly name: string; readonly clientConfig: ClientConfig }[];
  readonly spec?: {
    readonly conversion?: {
      readonly strategy?: string;
      readonly webhook?: { readonly clientConfig?: ClientConfig };
    };
    readonly service?: object | null;
    readonly insecureSkipTLSVerify?: boolean;
    readonly caBundle?: string;
    readonly trustBundle?: string;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

interface ClientConfig {
  readonly service?: object;
  readonly url?: string;
  readonly caBundle?: string;
}

interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly fieldsV1?: FieldSet;
}

const clientConfigSlot = (name: string, { service, caBundle }: ClientConfig): Slot => ({
  name,
  present: caBundle,
  reach: service === undefined ? 'url' : 'service',
});

/**
 * An apply must include the name of a webhook, so Gatehouse owns the name too and hands it back: if another client dropped
 * the webhook, only name and caBundle would remain, which the API server rejects.
 */
const webhookConfiguration = (
  kind: 'MutatingWebhookConfiguration' | 'ValidatingWebhookConfiguration',
): TargetKind => ({
  kind,
  slots: ({ webhooks = [] }) =>
    webhooks.map(({ name, clientConfig }) => clientConfigSlot(name, clientConfig)),
  configuration: (slots, bundle) => ({
    webhooks: slots.map((name) => ({ name, clientConfig: { caBundle: base64(bundle) } })),
  }),
  ownedSlots: (fields) => Object.keys(fields['f:webhooks'] ?? {}).flatMap(webhookOf),
  ownership: (slots) => ({
    'f:webhooks': Object.fromEntries(
      slots.map((name) => [`k:${JSON.stringify({ name })}`, { 'f:clientConfig': { 'f:caBundle': {} } }]),
    ),
  }),
});

function webhookOf(element: string): readonly string[] {
  if (!element.startsWith('k:')) return [];
  const key: unknown = JSON.parse(element.slice(2));
  return typeof key === 'object' && key !== null && 'name' in key && typeof key.name === 'string'
    ? [key.name]
    : [];
}

const CONVERSION = 'spec.conversion';

/** An owned caBundle would remain when an apply sets `None`, and be rejected (kubernetes #108081, cert-manager #4838). */
const customResourceDefinition: TargetKind = {
  kind: 'CustomResourceDefinition',
  slots: ({ spec }) => {
    const { strategy, webhook } = spec?.conversion ?? {};
    if (strategy !== 'Webhook' || webhook?.clientConfig === undefined) return [];
    return [clientConfigSlot(CONVERSION, webhook.clientConfig)];
  },
  configuration: (_slots, bundle) => ({
    spec: { conversion: { webhook: { clientConfig: { caBundle: base64(bundle) } } } },
  }),
  ownedSlots: (fields) => (fields['f:spec']?.['f:conversion'] === undefined ? [] : [CONVERSION]),
  ownership: () => undefined,
};

const API_SERVICE = 'spec';

const apiService: TargetKind = {
  kind: 'APIService',
  // Without a Service the API server itself serves it. With insecureSkipTLSVerify the API server rejects a bundle.
  slots: ({ spec }) =>
    spec?.service === undefined || spec.service === null || spec.insecureSkipTLSVerify === true
      ? []
      : [{ name: API_SERVICE, present: spec.caBundle, reach: 'service' }],
  configuration: (_slots, bundle) => ({ spec: { caBundle: base64(bundle) } }),
  ownedSlots: (fields) => (fields['f:spec']?.['f:caBundle'] === undefined ? [] : [API_SERVICE]),
  ownership: () => ({ 'f:spec': { 'f:caBundle': {} } }),
};

const configMap: TargetKind = {
  kind: 'ConfigMap',
  slots: ({ data = {} }, key) => [{ name: key, present: data[key], reach: 'service' }],
  configuration: (slots, bundle) => ({ data: Object.fromEntries(slots.map((key) => [key, bundle])) }),
  ownedSlots: (fields) =>
    Object.keys(fields['f:data'] ?? {}).flatMap((element) =>
      element.startsWith('f:') ? [element.slice(2)] : [],
    ),
  ownership: (slots) => ({ 'f:data': Object.fromEntries(slots.map((key) => [`f:${key}`, {}])) }),
};

const TRUSTED = 'spec.trustBundle';

const clusterTrustBundle: TargetKind = {
  kind: 'ClusterTrustBundle',
  slots: ({ spec }) => [{ name: TRUSTED, present: spec?.trustBundle, reach: 'service' }],
  configuration: (_slots, bundle) => ({ spec: { signerName: TRUST_BUNDLE_SIGNER, trustBundle: bundle } }),
  ownedSlots: (fields) => (fields['f:spec']?.['f:trustBundle'] === undefined ? [] : [TRUSTED]),
  ownership: () => ({ 'f:spec': { 'f:signerName': {}, 'f:trustBundle': {} } }),
};

export const TARGET_KINDS = {
  mutating: webhookConfiguration('MutatingWebhookConfiguration'),
  validating: webhookConfiguration('ValidatingWebhookConfiguration'),
  customResourceDefinition,
  apiService,
  configMap,
  clusterTrustBundle,
} as const;

/** Reduces an object to what the injector needs, because most of thousands of CRDs and ConfigMaps ask for nothing. */
export function toTarget(kind: TargetKind, raw: RawTarget, compat: readonly Compat[]): InjectionTarget {
  const { metadata = {} } = raw;
  const request = immutableOr(injectionRequest(kind.kind, metadata, compat), raw);
  return {
    ...pick(raw, 'apiVersion', 'kind'),
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'deletionTimestamp'),
      annotations: Object.fromEntries(
        Object.entries(metadata.annotations ?? {}).filter(([key]) => TARGET_ANNOTATIONS.includes(key)),
      ),
    },
    request,
    slots: kind.slots(raw, request.kind === 'wanted' ? request.key : CA_BUNDLE_KEY),
    own: (metadata.managedFields ?? []).flatMap(({ manager, fieldsV1 = {} }, index) =>
      manager === INJECTION_MANAGER ? [{ index, fields: fieldsV1 }] : [],
    ),
  };
}

function immutableOr(request: InjectionRequest, { immutable }: RawTarget): InjectionRequest {
  return request.kind === 'wanted' && immutable === true
    ? { kind: 'invalid', message: 'the ConfigMap is immutable: recreate it without `immutable: true`' }
    : request;
}
