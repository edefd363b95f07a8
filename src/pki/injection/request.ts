import type { ObjectMeta } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import {
  ALLOW_DIRECT_INJECTION,
  annotationProblem,
  CA_BUNDLE_KEY,
  DISTRIBUTED,
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECT_CABUNDLE_KEY,
  TRUST_BUNDLE,
} from '../annotations.ts';

export const COMPAT_SYSTEMS = ['openshift', 'cert-manager'] as const;
export type Compat = (typeof COMPAT_SYSTEMS)[number];

export type TargetKindName =
  | 'MutatingWebhookConfiguration'
  | 'ValidatingWebhookConfiguration'
  | 'CustomResourceDefinition'
  | 'APIService'
  | 'ConfigMap'
  | 'ClusterTrustBundle';

/** For a Certificate of cert-manager, its Secret is read. */
export interface SourceRef {
  readonly kind: 'Secret' | 'ConfigMap' | 'Certificate';
  readonly namespace: string;
  readonly name: string;
  /** Of a ConfigMap, the key with the bundle. Default: `ca.crt`, or else a CA in `tls.crt`. */
  readonly key?: string;
}

/** By which the owner of a source agrees. */
export interface Consent {
  readonly annotation: string;
  readonly value: string;
}

export type BundleSource =
  | { readonly kind: 'authority' }
  | { readonly kind: 'api-server' }
  | { readonly kind: 'object'; readonly ref: SourceRef; readonly consent: Consent };

export type InjectionRequest =
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly message: string }
  | {
      readonly kind: 'wanted';
      readonly source: BundleSource;
      /** Webhooks of a webhook configuration. `services`: those behind a Service. */
      readonly webhooks: 'all' | 'services' | readonly string[];
      readonly key: string;
      /** Another annotation is ignored. */
      readonly problem?: string | undefined;
    };

const OPENSHIFT_BETA = 'service.beta.openshift.io/inject-cabundle';
const OPENSHIFT_ALPHA = 'service.alpha.openshift.io/inject-cabundle';
const OPENSHIFT_KEY = 'service-ca.crt';
const CERT_MANAGER_FROM_SECRET = 'cert-manager.io/inject-ca-from-secret';
const CERT_MANAGER_FROM = 'cert-manager.io/inject-ca-from';
const CERT_MANAGER_API_SERVER = 'cert-manager.io/inject-apiserver-ca';
const CERT_MANAGER_CONSENT = 'cert-manager.io/allow-direct-injection';
/** cert-manager sets it on the Secret of a Certificate. */
const CERTIFICATE_NAME = 'cert-manager.io/certificate-name';

export const TARGET_ANNOTATIONS: readonly string[] = [
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECT_CABUNDLE_KEY,
  OPENSHIFT_BETA,
  OPENSHIFT_ALPHA,
  CERT_MANAGER_FROM_SECRET,
  CERT_MANAGER_FROM,
  CERT_MANAGER_API_SERVER,
];
export const SOURCE_ANNOTATIONS: readonly string[] = [
  ALLOW_DIRECT_INJECTION,
  CERT_MANAGER_CONSENT,
  CERTIFICATE_NAME,
];

type Annotations = Readonly<Record<string, string>>;

const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const KEY = /^[-._a-zA-Z0-9]{1,253}$/;
const SOURCE_KINDS = new Map<string, 'Secret' | 'ConfigMap'>([
  ['secret', 'Secret'],
  ['configmap', 'ConfigMap'],
]);
const NONE: InjectionRequest = { kind: 'none' };
const OWN_TRUST_BUNDLE: InjectionRequest = {
  kind: 'wanted',
  source: { kind: 'authority' },
  webhooks: 'all',
  key: CA_BUNDLE_KEY,
};

/** Our own annotations take precedence over OpenShift's, and those over cert-manager's. */
export function injectionRequest(
  kind: TargetKindName,
  metadata: ObjectMeta | undefined,
  compat: readonly Compat[],
): InjectionRequest {
  // Only Gatehouse asks: the owners of other trust bundles vouch for what is in them.
  if (kind === 'ClusterTrustBundle') return metadata?.name === TRUST_BUNDLE ? OWN_TRUST_BUNDLE : NONE;
  const annotations = metadata?.annotations ?? {};
  const request =
    ownRequest(kind, annotations) ??
    (compat.includes('openshift') ? openshiftRequest(kind, annotations) : undefined) ??
    (compat.includes('cert-manager') ? certManagerRequest(kind, annotations) : undefined) ??
    NONE;
  if (request.kind === 'invalid') return request;
  if (request.kind === 'wanted' && isCopy(metadata))
    return invalid(
      'the ConfigMap is a copy of a distributed bundle, which Gatehouse writes: remove the annotation',
    );
  const problem = annotationProblem(kind, annotations);
  if (problem === undefined) return request;
  return request.kind === 'none' ? invalid(problem) : { ...request, problem };
}

const isCopy = ({ annotations, namespace = '', name = '' }: ObjectMeta = {}): boolean =>
  annotations?.[DISTRIBUTED] === `${namespace}/${name}`;

function ownRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  const value = annotations[INJECT_CABUNDLE]?.trim();
  const from = annotations[INJECT_CABUNDLE_FROM];
  if (value === undefined && from === undefined) return undefined;
  if (value === 'false') return NONE;

  const all = kind.endsWith('WebhookConfiguration') ? 'services' : 'all';
  const webhooks = value === undefined || value === 'true' ? all : webhookNames(kind, value);
  if (typeof webhooks === 'object' && 'message' in webhooks) return { kind: 'invalid', ...webhooks };
  const source: BundleSource | undefined =
    from === undefined ? { kind: 'authority' } : sourceOf(from, ALLOW_DIRECT_INJECTION);
  if (source === undefined) return invalidSource(INJECT_CABUNDLE_FROM, from);
  const key = annotations[INJECT_CABUNDLE_KEY] ?? CA_BUNDLE_KEY;
  if (!KEY.test(key))
    return invalid(`${INJECT_CABUNDLE_KEY} is ${quote(key)}, which cannot be a key of a ConfigMap`);
  return { kind: 'wanted', source, webhooks, key };
}

function webhookNames(kind: TargetKindName, value: string): readonly string[] | { readonly message: string } {
  const names = value.split(',').map((name) => name.trim());
  if (!kind.endsWith('WebhookConfiguration'))
    return { message: `${INJECT_CABUNDLE} is ${quote(value)}: in a ${kind} it takes "true" or "false"` };
  const bad = names.find((name) => !NAME.test(name));
  if (bad === undefined) return [...new Set(names)];
  const what =
    value === '' ? 'is empty' : `is ${quote(value)}, and ${quote(bad)} cannot be the name of a webhook`;
  return {
    message: `${INJECT_CABUNDLE} ${what}: write "true", or names of webhooks with commas between them`,
  };
}

/** As in service-ca: the alpha annotation works only on ConfigMaps and APIServices, only `true` has an effect, and webhooks with a `url` count. */
function openshiftRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  const alpha = kind === 'ConfigMap' || kind === 'APIService' ? annotations[OPENSHIFT_ALPHA] : undefined;
  const asks = [annotations[OPENSHIFT_BETA], alpha].some((value) => value?.toLowerCase() === 'true');
  return asks
    ? { kind: 'wanted', source: { kind: 'authority' }, webhooks: 'all', key: OPENSHIFT_KEY }
    : undefined;
}

/** As in cert-manager's cainjector: the first of three annotations has an effect, none on ConfigMaps, and webhooks with a `url` count. */
function certManagerRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  if (kind === 'ConfigMap') return undefined;
  const wanted = { kind: 'wanted', webhooks: 'all', key: CA_BUNDLE_KEY } as const;
  const secret = annotations[CERT_MANAGER_FROM_SECRET];
  if (secret !== undefined) {
    const source = sourceOf(secret, CERT_MANAGER_CONSENT);
    return source?.kind === 'object' && source.ref.kind === 'Secret'
      ? { ...wanted, source }
      : invalidSource(CERT_MANAGER_FROM_SECRET, secret);
  }
  const certificate = annotations[CERT_MANAGER_FROM];
  if (certificate !== undefined) {
    const [namespace = '', name = '', ...rest] = certificate.trim().split('/');
    if (rest.length > 0 || !NAME.test(namespace) || !NAME.test(name))
      return invalidSource(CERT_MANAGER_FROM, certificate);
    const consent = { annotation: CERTIFICATE_NAME, value: name };
    return { ...wanted, source: { kind: 'object', ref: { kind: 'Certificate', namespace, name }, consent } };
  }
  return annotations[CERT_MANAGER_API_SERVER] === 'true'
    ? { ...wanted, source: { kind: 'api-server' } }
    : undefined;
}

function sourceOf(text: string, annotation: string): BundleSource | undefined {
  const consent = { annotation, value: 'true' };
  const parts = text.trim().split('/');
  const [type = '', namespace = '', name = '', key] = parts.length === 2 ? ['secret', ...parts] : parts;
  const kind = SOURCE_KINDS.get(type);
  if (parts.length > 4 || !NAME.test(namespace) || !NAME.test(name)) return undefined;
  if (key === undefined) return kind && { kind: 'object', ref: { kind, namespace, name }, consent };
  if (kind !== 'ConfigMap' || !KEY.test(key)) return undefined;
  return { kind: 'object', ref: { kind, namespace, name, key }, consent };
}

const invalid = (message: string): InjectionRequest => ({ kind: 'invalid', message });

function invalidSource(annotation: string, value = ''): InjectionRequest {
  const kind = annotation === CERT_MANAGER_FROM ? 'Certificate' : 'Secret';
  const more =
    annotation === INJECT_CABUNDLE_FROM ? ', or configmap/namespace/name, with /key unless it is ca.crt' : '';
  return invalid(
    `${annotation} is ${quote(value)}, which is not a source: write namespace/name of a ${kind}${more}`,
  );
}

export const sourcesOf = (request: InjectionRequest): readonly SourceRef[] =>
  request.kind === 'wanted' && request.source.kind === 'object' ? [request.source.ref] : [];

export const sourceName = ({ kind, namespace, name, key }: SourceRef): string =>
  `${kind} ${namespace}/${name}${key === undefined ? '' : `/${key}`}`;

export function originName(source: BundleSource): string {
  switch (source.kind) {
    case 'authority':
      return 'the authority of Gatehouse';
    case 'api-server':
      return 'the API server';
    case 'object':
      return sourceName(source.ref);
  }
}
