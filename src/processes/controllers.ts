import type { Logger } from 'pino';
import type { ControllersConfig } from '../config/config.ts';
import { createClient } from '../kube/client.ts';
import { createDryRun } from '../runtime/webhooks/dry-run.ts';
import { configurationTarget } from '../runtime/webhooks/installed-webhooks.ts';
import { startConversions } from '../runtime/conversions/start-conversions.ts';
import { campaign } from './leader.ts';
import { startReplica, type ReplicaParts } from './replica.ts';
import { followOwnSecrets, readWebhookReplicas } from '../runtime/own-state/own-state.ts';
import { runProcess, type ProcessOptions, type StatusPage } from './process.ts';

export interface ControllersOptions extends ProcessOptions {
  readonly statusPage: (config: ControllersConfig, log: Logger) => StatusPage;
}

/** A replica of the controllers, which leads if it is elected. It accepts no requests of the API server. */
export async function controllers(config: ControllersConfig, options: ControllersOptions): Promise<void> {
  const statusPage = statusPageOf(config, options);
  await runProcess(config, { ...options, statusPage }, async (process) => {
    const { connected, handlers, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const parts: ReplicaParts = {
      ...followOwnSecrets(context, shutdown),
      isOurs: () => false,
      strictPolicies: false, // it answers no reviews
      mayWrite: 'everything',
      dryRun: createDryRun(createClient(context.rest), configurationTarget(context)),
      webhookReplicas: readWebhookReplicas(context, shutdown),
    };
    const replica = startReplica(context, handlers, parts, shutdown);
    const conversions = startConversions(context, handlers.converters, shutdown);
    checkReadiness({ ...replica.checks, ...conversions.checks });
    // A failed election ends the process: a replica that can never lead would go unnoticed.
    await campaign(connected, replica, conversions, draining);
  });
}

export const statusPageOf = (config: ControllersConfig, { statusPage }: ControllersOptions) =>
  config.statusPage ? (log: Logger) => statusPage(config, log) : undefined;
