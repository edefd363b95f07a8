/** On every replica: watches the two webhook configurations named `gatehouse`. */
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { rulesIn, type InstalledRules } from '../../admission/webhooks/installed-rules.ts';
import { devSessionOf, type DevSession } from '../../admission/webhooks/dev-session.ts';
import { tokensIn } from '../../admission/webhooks/path-tokens.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { createListeners } from '../listeners.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { watch, type WatchContext } from '../watch.ts';

export const WEBHOOK_CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

export type WebhookResource = keyof typeof WEBHOOK_CONFIGURATIONS;

/** The Service that the entries of a cluster name, and the namespace that they exclude. */
export function configurationTarget({ config }: Pick<Context<ControllersConfig>, 'config'>) {
  const { namespace, service, servicePort } = config;
  return {
    service: { namespace, name: service, port: servicePort },
    ownNamespace: namespace,
    protectsOwnKinds: true,
  };
}

export type InstalledWebhooks = ReturnType<typeof watchInstalledWebhooks>;

export function watchInstalledWebhooks(context: WatchContext, signal: AbortSignal) {
  const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION_NAME}`;
  const listeners = createListeners<[]>();
  const watches = Object.values(WEBHOOK_CONFIGURATIONS).map((resource) =>
    watch<LiveWebhookConfiguration>(context, { resource, fieldSelector }, signal),
  );
  let rules: InstalledRules | undefined;
  let tokens: readonly string[] = [];
  const refresh = () => {
    if (!watches.every(({ hasSynced }) => hasSynced())) return;
    const configurations = watches.flatMap(({ store }) => store.list());
    rules = rulesIn(configurations);
    const webhooks = configurations.flatMap((configuration) => configuration.webhooks ?? []);
    tokens = tokensIn(webhooks.filter(({ clientConfig }) => clientConfig.service !== undefined));
    listeners.tell();
  };
  for (const { onChange, whenSynced } of watches) {
    onChange(refresh);
    whenSynced(signal).then(refresh, () => undefined); // rejects when the signal aborts
  }
  return {
    /** Undefined until both configurations have been listed. */
    rules: () => rules,
    /** The path tokens of the entries that lead to the Service. */
    tokens: () => tokens,
    /** The valid dev sessions; none until the first list. */
    devSessions: (now: Date): readonly DevSession[] =>
      watches
        .flatMap(({ store }) => store.list())
        .map((one) => devSessionOf(one, now))
        .flatMap((state) => (state.kind === 'valid' ? [state.session] : [])),
    whenListed: (waiting: AbortSignal) => Promise.all(watches.map(({ whenSynced }) => whenSynced(waiting))),
    /** Called after the first list, and after each change. */
    onChange: listeners.add,
  };
}
