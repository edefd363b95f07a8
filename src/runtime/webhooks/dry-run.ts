import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { LiveWebhook } from '../../admission/webhooks/dev-entries.ts';
import { rulesIn, type InstalledRules } from '../../admission/webhooks/installed-rules.ts';
import {
  webhookConfigurations,
  WEBHOOK_CONFIGURATION_NAME,
} from '../../admission/webhooks/webhook-configurations.ts';
import type { WebhookTarget } from '../../admission/webhooks/webhook.ts';
import { shorten } from '../../json/printable.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { WEBHOOK_CONFIGURATIONS } from './installed-webhooks.ts';

/** In characters: a condition holds at most 32,768. */
const LONGEST_MESSAGE = 4_096;

/**
 * Why the API server finds the written object invalid; undefined if it accepts the write.
 * @throws other errors
 */
export async function objectionTo(write: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await write();
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError) || ![400, 413, 422].includes(error.code)) throw error;
    return shorten(error.message, LONGEST_MESSAGE);
  }
}

/** Why the API server refuses the webhooks of a policy; undefined if it accepts them. */
export type DryRun = (policy: CompiledPolicy, signal: AbortSignal) => Promise<string | undefined>;

/** For processes that may not write webhook configurations: the leader keeps refused webhooks out of them. */
export const NO_DRY_RUN: DryRun = () => Promise.resolve(undefined);

/**
 * One webhook that the API server refuses would block those of all policies. A replica that may not try them, such as one on a
 * developer's machine, leaves that to the others.
 */
export const createDryRun =
  (client: Pick<KubeClient, 'create'>, target: Omit<WebhookTarget, 'caBundle'>): DryRun =>
  async (policy, signal) => {
    const { mutating, validating } = webhookConfigurations([policy], {
      ...target,
      caBundle: '',
      protectsOwnKinds: false,
    });
    const { mutatingwebhookconfigurations, validatingwebhookconfigurations } = WEBHOOK_CONFIGURATIONS;
    for (const [kind, configuration] of [
      [mutatingwebhookconfigurations, mutating],
      [validatingwebhookconfigurations, validating],
    ] as const) {
      const metadata = { generateName: `${WEBHOOK_CONFIGURATION_NAME}-` };
      const write = () => client.create(kind, { ...configuration, metadata }, { dryRun: true, signal });
      if (configuration.webhooks.length === 0) continue;
      const objection = await objectionTo(write).catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 403) return undefined;
        throw error;
      });
      if (objection !== undefined) return objection;
    }
    return undefined;
  };

type Webhooks = readonly LiveWebhook[];

/**
 * Writes the webhooks, without those that the API server refuses. Of these, the version that it stores stays.
 *
 * @param awaited the rules of policies that stay in force until their successors are installed
 * @returns the messages of the API server, by the name of the webhook
 */
export async function writeAccepted(
  webhooks: Webhooks,
  stored: Webhooks,
  awaited: InstalledRules,
  write: (webhooks: Webhooks, dryRun: boolean) => Promise<unknown>,
): Promise<ReadonlyMap<string, string>> {
  const refused = new Map<string, string>();
  const objection = await objectionTo(() => write(webhooks, false));
  if (objection === undefined) return refused;
  // By halves: there can be a thousand webhooks, and a reconcile has a minute.
  const find = async (some: Webhooks): Promise<void> => {
    const why = await objectionTo(() => write(some, true));
    const [first, ...others] = some;
    if (why === undefined || first === undefined) return;
    if (others.length === 0) refused.set(first.name, why);
    const half = Math.ceil(some.length / 2);
    for (const part of others.length === 0 ? [] : [some.slice(0, half), some.slice(half)]) await find(part);
  };
  await find(webhooks);
  if (refused.size === 0)
    throw new Error(`the API server accepts each webhook, but not all together: ${objection}`);
  const wanted = new Set(webhooks.map(({ name }) => name));
  const isKept = (webhook: LiveWebhook) =>
    refused.has(webhook.name) ||
    (!wanted.has(webhook.name) && [...rulesIn([{ webhooks: [webhook] }])].some((rule) => awaited.has(rule)));
  const kept: LiveWebhook[] = [];
  for (const old of stored.filter(isKept)) {
    const webhook = withCurrentClient(old, webhooks);
    if ((await objectionTo(() => write([webhook], true))) === undefined) kept.push(webhook);
  }
  await write([...webhooks.filter(({ name }) => !refused.has(name)), ...kept], false);
  return refused;
}

/** The stored webhook with the current CA bundle and path token, which all webhooks of a configuration share. */
function withCurrentClient(old: LiveWebhook, [first]: Webhooks): LiveWebhook {
  const { service } = first?.clientConfig ?? {};
  if (first === undefined || service === undefined) return old;
  const path = service.path.replace(/[^/]+$/, old.name.split('.', 1)[0] ?? '');
  return { ...old, clientConfig: { ...first.clientConfig, service: { ...service, path } } };
}
