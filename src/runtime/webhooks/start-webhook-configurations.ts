/** The two webhook configurations of Gatehouse: what goes into them, and how they are read and written. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import type { DevSessionDeps } from './dev-session.ts';
import type { LiveWebhookConfiguration, WebhookConfigurationsDeps } from './webhook-configurations.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';

export const WEBHOOK_CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

/** Where the entries lead in a cluster, and what they may ask for there. */
export function configurationTarget({
  config,
  capabilities,
}: Pick<Context, 'config' | 'capabilities'>): WebhookConfigurationsDeps['target'] {
  const { namespace, service, servicePort } = config;
  return {
    service: { namespace, name: service, port: servicePort },
    ownNamespace: namespace,
    matchConditions: capabilities.matchConditions,
    guardsOwnKinds: true,
  };
}

/** Those whom enabled detectors name. */
export const restorersOf = ({ store }: ReplicaParts['detectors']) =>
  store
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);

export function configurationAccess({
  client,
}: Pick<Context, 'client'>): Pick<DevSessionDeps, 'read' | 'create' | 'replace'> {
  return {
    read: (resource, signal) =>
      client.get<LiveWebhookConfiguration>(
        WEBHOOK_CONFIGURATIONS[resource],
        { name: WEBHOOK_CONFIGURATION_NAME },
        { signal },
      ),
    create: (resource, object, signal) => client.create(WEBHOOK_CONFIGURATIONS[resource], object, { signal }),
    replace: (resource, object, signal) =>
      client.replace(WEBHOOK_CONFIGURATIONS[resource], object, { signal }),
  };
}
