import type { WebhookConfig } from '../config/config.ts';
import { NO_DRY_RUN } from '../runtime/webhooks/dry-run.ts';
import { presentServingSecret } from '../runtime/certificates/own-certificate.ts';
import {
  createIsOurs,
  followCopies,
  followRollbacks,
  readOwnName,
  followSharedState,
  watchServingSecret,
} from '../runtime/own-state/own-state.ts';
import { runProcess, type ProcessOptions } from './process.ts';
import { drained, readClientTrust, startWebhooks } from './webhooks.ts';

/** A webhook replica. Of all Secrets it reads one, and it writes only UniqueClaims. */
export async function webhook(config: WebhookConfig, options: ProcessOptions): Promise<void> {
  const clients = await readClientTrust(config);
  const { exemplars } = config;
  await runProcess(config, { ...options, exemplars }, async (process) => {
    const { connected, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const serving = watchServingSecret(context, shutdown);
    const shared = followSharedState(serving, shutdown);
    followRollbacks(context, shared, shutdown);
    const webhooks = startWebhooks(process, clients, {
      ...followCopies(context, shared, shutdown),
      isOurs: createIsOurs(() => shared.current()?.user, config.namespace, readOwnName(context, shutdown)),
      mayWrite: 'claims',
      dryRun: NO_DRY_RUN,
    });
    presentServingSecret(context, serving, webhooks.listener, shutdown);
    checkReadiness({ certificate: webhooks.certificate, ...webhooks.checks });
    await drained(draining, config.drainDelayMs);
    await webhooks.listener.close();
  });
}
