/** The kinds that can carry a CA bundle, and which fields hold it. */
import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../api/group.ts';
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
  /** A `url` can lead to a server outside the cluster, whose cert is not from our authority. */
  readonly reach: 'service' | 'url';
}

export interface FieldSet {
  readonly [element: string]: FieldSet;
}

export interface InjectionTarget extends KubeObject {
  readonly request: InjectionRequest;
  readonly slots: readonly Slot[];
  /** The entries in managedFields that an apply of Gatehouse has left: their positions. */
  readonly own: readonly number[];
}

/** What an apply writes. */
export type TargetFields = Readonly<Record<string, unknown>> & Pick<KubeObject, 'metadata'>;

export interface TargetKind {
  readonly kind: TargetKindName;
  readonly slots: (object: RawTarget, key: string) => readonly Slot[];
  readonly configuration: (slots: readonly string[], bundle: CertificatePem) => TargetFields;
}

export interface RawTarget extends KubeObject {
  readonly metadata?: ObjectMeta & {
    readonly managedFields?: readonly { readonly manager?: string; readonly fieldsV1?: FieldSet }[];
  };
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

const clientConfigSlot = (name: string, { service, caBundle }: ClientConfig): Slot => ({
  name,
  present: caBundle,
  reach: service === undefined ? 'url' : 'service',
});

const webhookConfiguration = (
  kind: 'MutatingWebhookConfiguration' | 'ValidatingWebhookConfiguration',
): TargetKind => ({
  kind,
  slots: ({ webhooks = [] }) =>
    webhooks.map(({ name, clientConfig }) => clientConfigSlot(name, clientConfig)),
  configuration: (slots, bundle) => ({
    webhooks: slots.map((name) => ({ name, clientConfig: { caBundle: base64(bundle) } })),
  }),
});

const CONVERSION = 'spec.conversion';

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
};

const configMap: TargetKind = {
  kind: 'ConfigMap',
  slots: ({ data = {} }, key) => [
    { name: key, present: Object.hasOwn(data, key) ? data[key] : undefined, reach: 'service' },
  ],
  configuration: (slots, bundle) => ({ data: Object.fromEntries(slots.map((key) => [key, bundle])) }),
};

const TRUSTED = 'spec.trustBundle';

const clusterTrustBundle: TargetKind = {
  kind: 'ClusterTrustBundle',
  // Without the label, it is written again.
  slots: ({ metadata, spec }) => {
    const isLabelled = metadata?.labels?.[EXCLUDE_FROM_BACKUP_LABEL] === 'true';
    return [{ name: TRUSTED, present: isLabelled ? spec?.trustBundle : undefined, reach: 'service' }];
  },
  configuration: (_slots, bundle) => ({
    metadata: { labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true' } },
    spec: { signerName: TRUST_BUNDLE_SIGNER, trustBundle: bundle },
  }),
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
    own: ownEntries(metadata),
  };
}

/** None if Gatehouse is the only manager: an empty list of managers changes nothing. */
function ownEntries({ managedFields = [] }: NonNullable<RawTarget['metadata']>): readonly number[] {
  const own = managedFields.flatMap(({ manager }, index) => (manager === INJECTION_MANAGER ? [index] : []));
  return own.length === managedFields.length ? [] : own;
}

function immutableOr(request: InjectionRequest, { immutable }: RawTarget): InjectionRequest {
  return request.kind === 'wanted' && immutable === true
    ? { kind: 'invalid', message: 'the ConfigMap is immutable: recreate it without `immutable: true`' }
    : request;
}
