/** Which rules the API server follows: a policy is installed when both configurations carry its rules. */
import { NO_RELEASES, type ReleaseOf } from '../native/release.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import type { LiveWebhookConfiguration } from './dev-entries.ts';
import { webhookConfigurations } from './webhook-configurations.ts';
import type { WebhookRule } from './webhook.ts';

/** Each rule of each webhook, as text. */
export type InstalledRules = ReadonlySet<string>;

/** @param configurations as read from the API server */
export const rulesIn = (
  configurations: readonly Pick<LiveWebhookConfiguration, 'webhooks'>[],
): InstalledRules =>
  new Set(
    configurations.flatMap(({ webhooks = [] }) =>
      webhooks.flatMap(({ name, rules = [] }) => rules.map((rule) => textOf(name, rule))),
    ),
  );

/** The rules that the policies need, in both configurations. */
export function rulesOf(
  policies: readonly CompiledPolicy[],
  releaseOf: ReleaseOf = NO_RELEASES,
): InstalledRules {
  const { mutating, validating } = webhookConfigurations(policies, ANY_TARGET, [], releaseOf);
  return rulesIn([mutating, validating]);
}

const textOf = (webhook: string, { apiGroups, apiVersions, operations, resources }: WebhookRule): string =>
  JSON.stringify([webhook, apiGroups, apiVersions, operations, resources]);

/** The scope of a policy is in the name of its webhook, so nothing else matters here. */
const ANY_TARGET = {
  service: { namespace: '', name: '', port: 443 },
  caBundle: '',
  ownNamespace: '',
};
