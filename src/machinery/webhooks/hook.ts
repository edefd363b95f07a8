import { messageOf } from '../../json/abort.ts';
import { isJsonObject, type JsonObject, type JsonValue, memoizeWeak } from '../../json/json.ts';
import { normaliseSelector } from '../../json/label-selector.ts';
import { compileMatchCondition } from '../../cel/match-condition.ts';
import type { ApiObject } from '../api-object.ts';
import { number, optionalText, record, records, text, texts } from '../fields.ts';

export interface ClientConfig {
  readonly url?: string;
  readonly service?: {
    readonly namespace: string;
    readonly name: string;
    readonly path: string;
    readonly port: number;
  };
  readonly ca?: string;
}

/** POSTs a review and parses the answer. @throws Error with the message that Go's client would give */
export type CallWebhook = (
  client: ClientConfig,
  body: JsonObject,
  timeoutMs: number,
  userAgent: string,
) => Promise<JsonValue>;

export type Rule = ReturnType<typeof rulesOf>[number];

export type Hook = ReturnType<typeof hookOf>;

/** The webhooks of a stored configuration in order: it is validated and defaulted. */
export const hooksOf = memoizeWeak((configuration: ApiObject): readonly Hook[] =>
  records(configuration, 'webhooks').map((webhook) => hookOf(webhook, configuration)),
);

function hookOf(webhook: JsonObject, { metadata }: ApiObject) {
  return {
    configuration: metadata.name ?? '',
    name: text(webhook, 'name'),
    client: clientConfigOf(webhook.clientConfig),
    rules: rulesOf(records(webhook, 'rules')),
    namespaceSelector: normaliseSelector(webhook.namespaceSelector ?? {}, '').selector,
    objectSelector: normaliseSelector(webhook.objectSelector ?? {}, '').selector,
    conditions: records(webhook, 'matchConditions').map((condition) =>
      compileMatchCondition(text(condition, 'expression')),
    ),
    ignoresFailures: webhook.failurePolicy === 'Ignore',
    exact: webhook.matchPolicy === 'Exact',
    timeoutSeconds: number(webhook, 'timeoutSeconds') ?? 10,
    reviewVersions: texts(webhook, 'admissionReviewVersions'),
    sideEffects: text(webhook, 'sideEffects'),
    reinvokes: webhook.reinvocationPolicy === 'IfNeeded',
  };
}

export const rulesOf = (rules: readonly JsonObject[]) =>
  rules.map((rule) => ({
    operations: texts(rule, 'operations'),
    apiGroups: texts(rule, 'apiGroups'),
    apiVersions: texts(rule, 'apiVersions'),
    resources: texts(rule, 'resources'),
    scope: text(rule, 'scope') || '*',
    names: texts(rule, 'resourceNames'), // only in admission policies; empty: all names
  }));

export function clientConfigOf(value: JsonValue | undefined): ClientConfig {
  if (!isJsonObject(value)) return {};
  const url = optionalText(value, 'url');
  const service = record(value, 'service');
  const ca = Buffer.from(text(value, 'caBundle'), 'base64').toString('utf8');
  return {
    ...(url === undefined ? {} : { url }),
    ...(service === undefined
      ? {}
      : {
          service: {
            namespace: text(service, 'namespace'),
            name: text(service, 'name'),
            path: text(service, 'path'),
            port: number(service, 'port') ?? 443,
          },
        }),
    ...(ca === '' ? {} : { ca }),
  };
}

/** A webhook gave no valid answer, so its failurePolicy decides. The message follows `failed calling webhook "…": `. */
export class CallFailure extends Error {
  override name = 'CallFailure';
}

/** Prefixes the cause as the API server does: `failed to call webhook: Post "https://…": …`. */
export const callFailure = (where: string, cause: unknown): CallFailure =>
  new CallFailure(`${where}: ${messageOf(cause)}`, { cause });
