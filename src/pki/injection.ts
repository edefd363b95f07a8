import type { KubernetesObject } from '../api/meta.ts';
import { INJECT_CABUNDLE } from './annotations.ts';
import { isSameBundle } from './bundle.ts';
import type { CertificatePem } from './pem.ts';

/** The fields of a Mutating- or ValidatingWebhookConfiguration that matter here. */
export interface WebhookConfiguration extends KubernetesObject {
  readonly webhooks?: readonly Webhook[];
}

export interface Webhook {
  readonly name: string;
  readonly clientConfig: {
    readonly service?: object;
    readonly url?: string;
    /** Base64 of PEM. */
    readonly caBundle?: string;
  };
}

/** One entry of a server-side apply that owns the caBundle and nothing else. */
export interface InjectedWebhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle: string };
}

export type InjectionPlan =
  /** Not ours to fill: nobody asked, or no entry reaches its webhook through a Service. */
  | { readonly kind: 'none' }
  | { readonly kind: 'current' }
  /**
   * `entries` are all that we own, also those that are right: an apply drops what it does not repeat.
   * `stale` names those that are wrong now.
   */
  | {
      readonly kind: 'inject';
      readonly entries: readonly InjectedWebhook[];
      readonly stale: readonly string[];
    };

/**
 * Which entries of a webhook configuration need the CA bundle. Entries with a `url` reach servers outside of the cluster, with
 * certs that are not ours.
 */
export function planInjection(configuration: WebhookConfiguration, bundle: CertificatePem): InjectionPlan {
  if (configuration.metadata?.annotations?.[INJECT_CABUNDLE] !== 'true') return { kind: 'none' };
  const owned = (configuration.webhooks ?? []).filter(
    ({ clientConfig }) => clientConfig.service !== undefined,
  );
  if (owned.length === 0) return { kind: 'none' };

  const stale = owned.filter(({ clientConfig }) => !isSameBundle(decode(clientConfig.caBundle), bundle));
  if (stale.length === 0) return { kind: 'current' };
  const caBundle = Buffer.from(bundle).toString('base64');
  return {
    kind: 'inject',
    entries: owned.map(({ name }) => ({ name, clientConfig: { caBundle } })),
    stale: stale.map(({ name }) => name),
  };
}

const decode = (caBundle: string | undefined): string =>
  Buffer.from(caBundle ?? '', 'base64').toString('utf8');
