/** On the leader: webhook configurations of others that ask for it carry the CA bundle. Nothing else in them is ours. */
import { planInjection, type InjectedWebhook, type WebhookConfiguration } from '../pki/injection.ts';
import type { CertificatePem } from '../pki/pem.ts';
import { AWAIT_CHANGE, type Log, type Reconcile } from './reconcile.ts';

export interface InjectorDeps {
  readonly configuration: (name: string) => WebhookConfiguration | undefined;
  readonly bundle: () => CertificatePem | undefined;
  /**
   * Server-side apply of just these entries, for the version that was looked at: an entry that has gone since would
   * otherwise come back as a stump.
   */
  readonly apply: (
    target: { readonly name: string; readonly resourceVersion: string | undefined },
    webhooks: readonly InjectedWebhook[],
    signal: AbortSignal,
  ) => Promise<void>;
  readonly log: Log;
}

export function createInjector({ configuration, bundle, apply, log }: InjectorDeps): Reconcile {
  return async (name, signal) => {
    const target = configuration(name);
    const trusted = bundle();
    if (target === undefined || trusted === undefined) return AWAIT_CHANGE;
    const plan = planInjection(target, trusted);
    if (plan.kind !== 'inject') return AWAIT_CHANGE;
    await apply({ name, resourceVersion: target.metadata?.resourceVersion }, plan.entries, signal);
    log.info({ name, webhooks: plan.stale }, 'injected the CA bundle');
    return AWAIT_CHANGE;
  };
}
