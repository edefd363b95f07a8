import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import { normaliseSelector, type NormalSelector } from '../../json/label-selector.ts';
import type { CelProgram } from '../../cel/cel.ts';
import { compileMatchCondition } from '../../cel/match-condition.ts';
import { field, type ApiObject } from '../api-object.ts';

/** The address of a webhook, from `clientConfig`. */
export interface ClientConfig {
  readonly url?: string;
  readonly service?: {
    readonly namespace: string;
    readonly name: string;
    readonly path: string;
    readonly port: number;
  };
  /** PEM; undefined: the system's CA certificates. */
  readonly ca?: string;
}

/** POSTs a review and parses the answer. @throws Error with the message that Go's client would give */
export type CallWebhook = (
  client: ClientConfig,
  body: JsonObject,
  timeoutMs: number,
  userAgent: string,
) => Promise<JsonValue>;

export interface Rule {
  readonly operations: readonly string[];
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly resources: readonly string[];
  readonly scope: string;
  /** Only in admission policies; empty: all names. */
  readonly names: readonly string[];
}

/** One webhook of a configuration, compiled. */
export interface Hook {
  readonly configuration: string;
  readonly name: string;
  readonly client: ClientConfig;
  readonly rules: readonly Rule[];
  readonly namespaceSelector: NormalSelector;
  readonly objectSelector: NormalSelector;
  /** The compiled expressions of its matchConditions. */
  readonly conditions: readonly CelProgram[];
  readonly ignoresFailures: boolean;
  readonly exact: boolean;
  readonly timeoutSeconds: number;
  readonly reviewVersions: readonly string[];
  readonly sideEffects: string;
  readonly reinvokes: boolean;
}

const known = new WeakMap<ApiObject, readonly Hook[]>();

/**
 * The webhooks of a stored configuration in order. Stored configurations are validated and defaulted; absent fields
 * are empty.
 */
export function hooksOf(configuration: ApiObject): readonly Hook[] {
  const cached = known.get(configuration);
  if (cached !== undefined) return cached;
  const hooks = objectsOf(field(configuration, 'webhooks')).map((webhook) => hookOf(webhook, configuration));
  known.set(configuration, hooks);
  return hooks;
}

function hookOf(webhook: JsonObject, { metadata }: ApiObject): Hook {
  return {
    configuration: metadata.name ?? '',
    name: textOf(webhook.name),
    client: clientConfigOf(webhook.clientConfig),
    rules: rulesOf(webhook.rules),
    namespaceSelector: normaliseSelector(webhook.namespaceSelector ?? {}, '').selector,
    objectSelector: normaliseSelector(webhook.objectSelector ?? {}, '').selector,
    conditions: objectsOf(webhook.matchConditions).map(({ expression }) =>
      compileMatchCondition(textOf(expression)),
    ),
    ignoresFailures: webhook.failurePolicy === 'Ignore',
    exact: webhook.matchPolicy === 'Exact',
    timeoutSeconds: typeof webhook.timeoutSeconds === 'number' ? webhook.timeoutSeconds : 10,
    reviewVersions: textsOf(webhook.admissionReviewVersions),
    sideEffects: textOf(webhook.sideEffects),
    reinvokes: webhook.reinvocationPolicy === 'IfNeeded',
  };
}

export const rulesOf = (rules: JsonValue | undefined): readonly Rule[] =>
  objectsOf(rules).map((rule) => ({
    operations: textsOf(rule.operations),
    apiGroups: textsOf(rule.apiGroups),
    apiVersions: textsOf(rule.apiVersions),
    resources: textsOf(rule.resources),
    scope: textOf(rule.scope) || '*',
    names: textsOf(rule.resourceNames),
  }));

/** For admission webhooks and conversion webhooks, which use the same format. */
export function clientConfigOf(value: JsonValue | undefined): ClientConfig {
  if (!isJsonObject(value)) return {};
  const { url, service, caBundle } = value;
  return {
    ...(typeof url === 'string' ? { url } : {}),
    ...(isJsonObject(service)
      ? {
          service: {
            namespace: textOf(service.namespace),
            name: textOf(service.name),
            path: textOf(ownValue(service, 'path')),
            port: typeof service.port === 'number' ? service.port : 443,
          },
        }
      : {}),
    ...(typeof caBundle === 'string' && caBundle !== ''
      ? { ca: Buffer.from(caBundle, 'base64').toString('utf8') }
      : {}),
  };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
const textsOf = (value: JsonValue | undefined): readonly string[] =>
  isJsonArray(value) ? value.filter((item) => typeof item === 'string') : [];
const objectsOf = (value: JsonValue | undefined): readonly JsonObject[] =>
  isJsonArray(value) ? value.filter((item) => isJsonObject(item)) : [];

/**
 * A webhook could not be called or gave an invalid answer; its failurePolicy decides what follows. The message is the
 * part after `failed calling webhook "…": ` in the API server's message.
 */
export class CallFailure extends Error {
  override name = 'CallFailure';
}

/** Prefixes the cause as the API server does: `failed to call webhook: Post "https://…": …`. */
export const callFailure = (where: string, cause: unknown): CallFailure =>
  new CallFailure(`${where}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
