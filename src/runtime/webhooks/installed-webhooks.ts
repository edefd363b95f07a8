/** On every replica: watches the two webhook configurations named `gatehouse`. */
import {
  type DevSession,
  type LiveWebhookConfiguration,
  devSessionOf,
} from '../../admission/webhooks/dev-entries.ts';
import {
  rulesIn,
  WEBHOOK_CONFIGURATION_NAME,
  type InstalledRules,
} from '../../admission/webhooks/webhook-configurations.ts';
import { tokensIn } from '../../admission/webhooks/path-tokens.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { createListeners } from '../listeners.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { watch, type WatchContext } from '../watch.ts';
import type { KubeClient } from '../../kube/client.ts';

export const WEBHOOK_CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

export type WebhookResource = keyof typeof WEBHOOK_CONFIGURATIONS;

/** Reads both from the API server, which may have none. */
export const readConfigurations = (client: Pick<KubeClient, 'get'>, signal: AbortSignal) =>
  Object.values(WEBHOOK_CONFIGURATIONS).map((kind) =>
    client.get<LiveWebhookConfiguration>(kind, { name: WEBHOOK_CONFIGURATION_NAME }, { signal }),
  );

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
  const name = WEBHOOK_CONFIGURATION_NAME;
  const listeners = createListeners<[]>();
  const watches = Object.values(WEBHOOK_CONFIGURATIONS).map((resource) =>
    watch<LiveWebhookConfiguration>(context, { resource, name }, signal),
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
