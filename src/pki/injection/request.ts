/** Reads the annotations by which an object asks for a CA bundle. */
import type { ObjectMeta } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import {
  ALLOW_DIRECT_INJECTION,
  CA_BUNDLE_KEY,
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECT_CABUNDLE_KEY,
} from '../annotations.ts';

/** Other projects whose annotations Gatehouse also honours. */
export type Compat = 'openshift' | 'cert-manager';

export type TargetKindName =
  | 'MutatingWebhookConfiguration'
  | 'ValidatingWebhookConfiguration'
  | 'CustomResourceDefinition'
  | 'APIService'
  | 'ConfigMap';

/** An object that holds a CA bundle for other objects. */
export interface SourceRef {
  readonly kind: 'Secret' | 'ConfigMap';
  readonly namespace: string;
  readonly name: string;
}

export type BundleSource =
  | { readonly kind: 'authority' }
  /** `consent`: the annotation by which the owner of the source agrees. */
  | { readonly kind: 'object'; readonly ref: SourceRef; readonly consent: string };

export type InjectionRequest =
  | { readonly kind: 'none' }
  | { readonly kind: 'invalid'; readonly message: string }
  | {
      readonly kind: 'wanted';
      readonly source: BundleSource;
      /** Webhooks of a webhook configuration. `all`: all webhooks behind a Service. */
      readonly webhooks: 'all' | readonly string[];
      /** The key of a ConfigMap. */
      readonly key: string;
    };

const OPENSHIFT_BETA = 'service.beta.openshift.io/inject-cabundle';
const OPENSHIFT_ALPHA = 'service.alpha.openshift.io/inject-cabundle';
const OPENSHIFT_KEY = 'service-ca.crt';
const CERT_MANAGER_FROM = 'cert-manager.io/inject-ca-from-secret';
const CERT_MANAGER_CONSENT = 'cert-manager.io/allow-direct-injection';

/** The relevant annotations of a target. The injector keeps no others in memory. */
export const TARGET_ANNOTATIONS: readonly string[] = [
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECT_CABUNDLE_KEY,
  OPENSHIFT_BETA,
  OPENSHIFT_ALPHA,
  CERT_MANAGER_FROM,
];
/** The same for a source. */
export const SOURCE_ANNOTATIONS: readonly string[] = [ALLOW_DIRECT_INJECTION, CERT_MANAGER_CONSENT];

type Annotations = Readonly<Record<string, string>>;

/** Names of objects and of webhooks are DNS subdomains (RFC 1123). */
const NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
/** The API server applies the same check to keys of ConfigMaps. */
const KEY = /^[-._a-zA-Z0-9]{1,253}$/;
const NONE: InjectionRequest = { kind: 'none' };

/** Our own annotations take precedence over OpenShift's, and those over cert-manager's. */
export function injectionRequest(
  kind: TargetKindName,
  metadata: ObjectMeta | undefined,
  compat: readonly Compat[],
): InjectionRequest {
  const annotations = metadata?.annotations ?? {};
  const own = ownRequest(kind, annotations);
  if (own !== undefined) return own;
  return (
    (compat.includes('openshift') ? openshiftRequest(kind, annotations) : undefined) ??
    (compat.includes('cert-manager') ? certManagerRequest(kind, annotations) : undefined) ??
    NONE
  );
}

/** Undefined if the object has none of our annotations. */
function ownRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  const value = annotations[INJECT_CABUNDLE]?.trim();
  const from = annotations[INJECT_CABUNDLE_FROM];
  if (value === undefined && from === undefined) return undefined;
  if (value === 'false') return NONE;

  const webhooks = value === undefined || value === 'true' ? 'all' : webhookNames(kind, value);
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

/** As in service-ca, the alpha annotation works only on ConfigMaps and APIServices, and only `true` has an effect. */
function openshiftRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  const alpha = kind === 'ConfigMap' || kind === 'APIService' ? annotations[OPENSHIFT_ALPHA] : undefined;
  const asks = [annotations[OPENSHIFT_BETA], alpha].some((value) => value?.toLowerCase() === 'true');
  return asks
    ? { kind: 'wanted', source: { kind: 'authority' }, webhooks: 'all', key: OPENSHIFT_KEY }
    : undefined;
}

/** cert-manager's cainjector does not fill ConfigMaps. */
function certManagerRequest(kind: TargetKindName, annotations: Annotations): InjectionRequest | undefined {
  const from = annotations[CERT_MANAGER_FROM];
  if (from === undefined || kind === 'ConfigMap') return undefined;
  const source = sourceOf(from, CERT_MANAGER_CONSENT);
  if (source?.kind !== 'object' || source.ref.kind !== 'Secret')
    return invalidSource(CERT_MANAGER_FROM, from);
  return { kind: 'wanted', source, webhooks: 'all', key: CA_BUNDLE_KEY };
}

function sourceOf(text: string, consent: string): BundleSource | undefined {
  const parts = text.trim().split('/');
  const [kind, namespace = '', name = ''] = parts.length === 2 ? ['secret', ...parts] : parts;
  if (parts.length > 3 || !NAME.test(namespace) || !NAME.test(name)) return undefined;
  switch (kind) {
    case 'secret':
      return { kind: 'object', ref: { kind: 'Secret', namespace, name }, consent };
    case 'configmap':
      return { kind: 'object', ref: { kind: 'ConfigMap', namespace, name }, consent };
    case undefined:
    default:
      return undefined;
  }
}

const invalid = (message: string): InjectionRequest => ({ kind: 'invalid', message });

const invalidSource = (annotation: string, value = ''): InjectionRequest =>
  invalid(
    `${annotation} is ${quote(value)}, which names no source: write namespace/name of a Secret` +
      (annotation === INJECT_CABUNDLE_FROM ? ', or configmap/namespace/name' : ''),
  );

/** The object from which the bundle is copied; empty if it comes from the authority. */
export const sourcesOf = (request: InjectionRequest): readonly SourceRef[] =>
  request.kind === 'wanted' && request.source.kind === 'object' ? [request.source.ref] : [];

/** The display name of a source, for messages. */
export const sourceName = ({ kind, namespace, name }: SourceRef): string => `${kind} ${namespace}/${name}`;
