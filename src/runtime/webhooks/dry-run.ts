import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { LiveWebhook } from '../../admission/webhooks/dev-entries.ts';
import {
  rulesIn,
  webhookConfigurations,
  WEBHOOK_CONFIGURATION_NAME,
  type InstalledRules,
} from '../../admission/webhooks/webhook-configurations.ts';
import type { WebhookTarget } from '../../admission/webhooks/webhook.ts';
import { shorten } from '../../json/printable.ts';
import { ApiError, insteadOf, isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { WEBHOOK_CONFIGURATIONS } from './installed-webhooks.ts';

/** In characters: a condition holds at most 32,768. */
const LONGEST_MESSAGE = 4_096;

/** Why the API server finds the written object invalid; undefined if it accepts the write. Throws other errors. */
async function objectionTo(write: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await write();
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError) || !(REFUSALS.includes(error.code) || isTooLarge(error))) throw error;
    return shorten(error.message, LONGEST_MESSAGE);
  }
}

const REFUSALS: readonly number[] = [400, 413, 422];

/** etcd accepts 1.5 MiB, and the API server answers 500 with its error (`request is too large`, or of gRPC: `larger than max`). */
const isTooLarge = ({ code, message }: ApiError): boolean =>
  code === 500 && /request is too large|larger than max/.test(message);

export type DryRun = (policy: CompiledPolicy, signal: AbortSignal) => Promise<string | undefined>;

/** For processes that lack permission to write webhook configurations: the leader keeps refused webhooks out of them. */
export const NO_DRY_RUN: DryRun = () => Promise.resolve(undefined);

/** One webhook that the API server refuses would block those of all policies. A replica that lacks permission to try them skips this. */
export const createDryRun =
  (client: Pick<KubeClient, 'create'>, target: Omit<WebhookTarget, 'caBundle'>): DryRun =>
  async (policy, signal) => {
    const tried = { ...target, caBundle: '', protectsOwnKinds: false };
    const { mutating, validating } = webhookConfigurations([policy], tried);
    const { mutatingwebhookconfigurations, validatingwebhookconfigurations } = WEBHOOK_CONFIGURATIONS;
    for (const [kind, configuration] of [
      [mutatingwebhookconfigurations, mutating],
      [validatingwebhookconfigurations, validating],
    ] as const) {
      const metadata = { generateName: `${WEBHOOK_CONFIGURATION_NAME}-` };
      const write = () => client.create(kind, { ...configuration, metadata }, { dryRun: true, signal });
      if (configuration.webhooks.length === 0) continue;
      const objection = await objectionTo(write).catch(insteadOf(isForbidden, undefined));
      if (objection !== undefined) return objection;
    }
    return undefined;
  };

type Webhooks = readonly LiveWebhook[];
type Write = (webhooks: Webhooks, dryRun: boolean) => Promise<unknown>;

/** Keeps the stored version of refused webhooks. `awaited`: rules of policies in force until their successors are installed. */
export async function writeAccepted(
  webhooks: Webhooks,
  stored: Webhooks,
  awaited: InstalledRules,
  write: Write,
): Promise<ReadonlyMap<string, string>> {
  if ((await objectionTo(() => write(webhooks, false))) === undefined) return new Map();
  const refused = await findRefused(webhooks, write);
  const wanted = new Set(webhooks.map(({ name }) => name));
  const isKept = (webhook: LiveWebhook) =>
    refused.has(webhook.name) ||
    (!wanted.has(webhook.name) && [...rulesIn([{ webhooks: [webhook] }])].some((rule) => awaited.has(rule)));
  const kept: LiveWebhook[] = [];
  for (const old of stored.filter(isKept)) {
    const webhook = withCurrentClient(old, webhooks);
    if ((await objectionTo(() => write([webhook], true))) === undefined) kept.push(webhook);
  }
  const accepted = [...webhooks.filter(({ name }) => !refused.has(name)), ...kept];
  return new Map([...refused, ...(await writeFitting(accepted, stored, write))]);
}

/** By halves: there can be a thousand webhooks, and a reconcile has a minute. */
async function findRefused(webhooks: Webhooks, write: Write): Promise<ReadonlyMap<string, string>> {
  const why = await objectionTo(() => write(webhooks, true));
  const [first, ...others] = webhooks;
  if (why === undefined || first === undefined) return new Map();
  if (others.length === 0) return new Map([[first.name, why]]);
  const half = Math.ceil(webhooks.length / 2);
  const [left, right] = [webhooks.slice(0, half), webhooks.slice(half)];
  return new Map([...(await findRefused(left, write)), ...(await findRefused(right, write))]);
}

/** Writes all installed webhooks, and as many new ones as fit. Dry runs do not reach etcd, so each attempt is a write. */
async function writeFitting(
  webhooks: Webhooks,
  stored: Webhooks,
  write: Write,
): Promise<ReadonlyMap<string, string>> {
  const why = await objectionTo(() => write(webhooks, false));
  if (why === undefined) return new Map();
  const installed = new Set(stored.map(({ name }) => name));
  const added = webhooks.map(({ name }) => name).filter((name) => !installed.has(name));
  let [fits, tooMany] = [-1, added.length];
  while (tooMany - fits > 1) {
    const count = Math.floor((fits + tooMany) / 2);
    const leftOut = new Set(added.slice(count));
    const some = webhooks.filter(({ name }) => !leftOut.has(name));
    if ((await objectionTo(() => write(some, false))) === undefined) fits = count;
    else tooMany = count;
  }
  if (fits < 0) throw new Error(`the API server accepts each webhook, but not all together: ${why}`);
  const message =
    `the API server does not store it together with the other webhooks (${why}): ` +
    'give policies equal scopes, so that they share webhooks, or delete some';
  return new Map(added.slice(fits).map((name) => [name, message]));
}

/** The stored webhook with the current CA bundle and path token, which all webhooks of a configuration share. */
function withCurrentClient(old: LiveWebhook, [first]: Webhooks): LiveWebhook {
  const { service } = first?.clientConfig ?? {};
  if (first === undefined || service === undefined) return old;
  const path = service.path.replace(/[^/]+$/, old.name.split('.', 1)[0] ?? '');
  return { ...old, clientConfig: { ...first.clientConfig, service: { ...service, path } } };
}
