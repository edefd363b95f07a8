/** `gatehouse serve`: both processes in one. */
import type { Config } from '../config/config.ts';
import type { DevUrl } from '../config/dev-url.ts';
import { createClient } from '../kube/client.ts';
import type { Context } from '../runtime/context.ts';
import { createDryRun } from '../runtime/webhooks/dry-run.ts';
import { configurationTarget } from '../runtime/webhooks/installed-webhooks.ts';
import { campaign } from './leader.ts';
import { presentServingSecret } from '../runtime/certificates/own-certificate.ts';
import {
  createIsOurs,
  followInSession,
  followOwnSecrets,
  followSharedState,
  watchServingSecret,
} from '../runtime/own-state/own-state.ts';
import { runProcess } from './process.ts';
import { statusPageOf, type ControllersOptions } from './controllers.ts';
import { drained, readClientTrust, startWebhooks, type Webhooks } from './webhooks.ts';

export interface ServeOptions extends ControllersOptions {
  /** With `--dev-url`, runs instead of the leader election. */
  readonly devSession: (
    context: Context<Config>,
    url: DevUrl,
    webhooks: Webhooks,
    draining: AbortSignal,
  ) => Promise<void>;
}

/** Both in one process, which takes the Secrets instead of their copies. */
export async function serve(config: Config, options: ServeOptions): Promise<void> {
  const clients = await readClientTrust(config);
  const { exemplars } = config;
  const statusPage = statusPageOf(config, options);
  await runProcess(config, { ...options, exemplars, statusPage }, async (process) => {
    const { connected, checkReadiness, draining, shutdown } = process;
    const { context } = connected;
    const serving = watchServingSecret(context, shutdown);
    const shared = followSharedState(serving, shutdown);
    const webhooks = startWebhooks(process, clients, {
      ...(config.devUrl === undefined
        ? followOwnSecrets(context, shutdown)
        : followInSession(context, shutdown)),
      isOurs: createIsOurs(() => shared.current()?.user, config.namespace),
      mayWrite: 'everything',
      dryRun: createDryRun(createClient(context.rest), configurationTarget(context)),
    });
    const { replica, conversions, listener } = webhooks;
    checkReadiness({ certificate: webhooks.certificate, ...webhooks.checks });
    if (config.devUrl !== undefined) {
      // On a developer's machine: the cluster has its leader, and this process never becomes one.
      await options.devSession(context, config.devUrl, webhooks, draining);
      await listener.close();
      return;
    }
    presentServingSecret(context, serving, listener, shutdown);
    // The next leader need not wait until this replica has served its last request.
    const leading = campaign(connected, replica, conversions, draining);
    const end = drained(draining, config.drainDelayMs);
    try {
      await Promise.race([end, leading.then(() => end)]);
    } finally {
      await listener.close(); // also when the election has failed: reviews in hand get their answers
    }
    await leading;
  });
}
