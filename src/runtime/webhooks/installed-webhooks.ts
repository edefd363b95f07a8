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

export const readConfigurations = (client: Pick<KubeClient, 'get'>, signal: AbortSignal) =>
  Object.values(WEBHOOK_CONFIGURATIONS).map((kind) =>
    client.get<LiveWebhookConfiguration>(kind, { name: WEBHOOK_CONFIGURATION_NAME }, { signal }),
  );

export function configurationTarget({ config }: Pick<Context<ControllersConfig>, 'config'>) {
  const { namespace, service: name, servicePort: port } = config;
  return { service: { namespace, name, port }, ownNamespace: namespace, protectsOwnKinds: true };
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
    rules: () => rules,
    tokens: () => tokens,
    devSessions: (now: Date): readonly DevSession[] =>
      watches
        .flatMap(({ store }) => store.list())
        .map((one) => devSessionOf(one, now))
        .flatMap((state) => (state.kind === 'valid' ? [state.session] : [])),
    whenListed: (waiting: AbortSignal) => Promise.all(watches.map(({ whenSynced }) => whenSynced(waiting))),
    onChange: listeners.add,
  };
}
