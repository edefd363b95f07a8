/** The API server of a review: the kinds, policies and handlers of the input, behind the webhooks of Gatehouse. */
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import { grantsIn } from '../../admission/policy/exceptions/exceptions.ts';
import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import { compileHandlers, type LoadedHandler } from '../../runtime/handlers/load-handlers.ts';
import { createApiServer } from './api-server.ts';
import {
  compilePolicies,
  conditionProblems,
  type Labelled,
  readExceptions,
  readOwn,
  withoutQuestions,
} from './policies.ts';
import { joined, type Parsed, type PlacedObject, refuse } from './input.ts';
import { createSnapshot, type SnapshotInput } from './snapshot.ts';
import { compileConversion } from '../../admission/conversion/compile.ts';
import type { Converter } from '../../admission/conversion/converter.ts';
import { readDefinition } from '../../admission/conversion/definition.ts';
import { type CompiledHandler, handlerOfEntry } from '../../admission/handlers/compile-handler.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  listIn,
  stringifyJson,
  textIn,
  valueIn,
} from '../../json/json.ts';
import type { ConversionPolicy } from '../../api/conversion-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { groupResourceName, splitApiVersion } from '../../json/kube-object.ts';
import { type ApiObject, toJson } from '../../machinery/api-object.ts';
import { type ConvertObjects, createConverter } from '../../machinery/crd/convert.ts';
import { DEFINITIONS } from '../../machinery/crd/definition.ts';
import { createDefinedView } from '../../machinery/objects/decode.ts';
import { apiVersionOf, type ResourceRegistry, type ResourceType } from '../../machinery/resource-type.ts';
import type { Storage } from '../../machinery/storage/stored.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { isDeletionEntry } from '../../admission/webhooks/protect-own-kinds.ts';
import { callHandler } from '../../admission/handlers/call-handler.ts';
import type { HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import { buildPolicySet, validate } from '../../admission/policy/validate.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { checkTargetDeletion } from '../../admission/policy/references/check-target-deletion.ts';
import { parseReview, toMutatingReview, toValidatingReview } from '../../admission/review/review.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import { inHandler } from '../../runtime/handlers/stray-errors.ts';
import type { CallWebhook } from '../../machinery/webhooks/hook.ts';
import { recordDecision, type Recording } from './review-result.ts';

export interface ReviewContext {
  readonly handlers: readonly LoadedHandler[];
  readonly ownNamespace: string;
  readonly now: Date;
  readonly assumeConverted?: (name: string) => void;
}

export type Stage = ReturnType<typeof createStage>;

/** A placeholder: no connection is made. */
const SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };

export function createStage(input: SnapshotInput, { ownNamespace, now, ...context }: ReviewContext) {
  const objects = [...input.existing, ...input.reviewed];
  const snapshot = createSnapshot(input);
  const { kinds, storage } = snapshot;
  const grants = grantsIn(readExceptions(objects, kinds.registry, input.namespace));
  const environment = { ownNamespace, grants };
  const policies = compilePolicies(objects, kinds, environment);
  const handlers = compileHandlers(context.handlers, environment);
  const converters = readConverters(objects, handlers, kinds.registry, storage);
  refuse([
    ...policies.flatMap(({ name, match }) =>
      conditionProblems(`AdmissionPolicy ${name}: spec.match`, match.matchConditions),
    ),
    ...handlers.flatMap(({ name, match }) =>
      conditionProblems(`handler ${name}: match`, match.matchConditions),
    ),
  ]);
  const target = { ...environment, service: SERVICE, caBundle: '' };
  const webhooks = webhookConfigurations(policies, target, handlers);
  return {
    snapshot,
    policies,
    handlers,
    now,
    api: createApiServer(
      kinds.registry,
      storage,
      createConversion(storage, converters, context.assumeConverted),
      webhooks,
    ),
    calls: createCalls(policies.map(withoutQuestions), handlers, now),
  };
}

type Converters = ReadonlyMap<string, Converter>;

function readConverters(
  objects: readonly PlacedObject[],
  handlers: readonly CompiledHandler[],
  registry: ResourceRegistry,
  storage: Pick<Storage, 'get'>,
): Converters {
  const { found, problems } = readOwn<ConversionPolicy>('ConversionPolicy', objects, registry);
  const compiled = joined(found.map((policy) => compileLabelled(policy, storage)));
  refuse([...problems, ...compiled.problems]);
  const ofHandlers = handlers
    .map(({ converter }) => converter)
    .filter((converter) => converter !== undefined)
    .map((converter) => [groupResourceName(converter.target), converter] as const);
  return new Map<string, Converter>([...ofHandlers, ...compiled.found]);
}

function compileLabelled(
  { label, object: policy }: Labelled<ConversionPolicy>,
  storage: Pick<Storage, 'get'>,
): Parsed<readonly [string, Converter]> {
  const name = groupResourceName(toGroupResource(policy.spec.target));
  const crd = storage.get(DEFINITIONS, { namespace: '', name });
  const definition = crd === undefined ? undefined : readDefinition(toJson(crd));
  if (definition === undefined) {
    const message = `spec.target: the CustomResourceDefinition ${name} is missing: add it to the crds`;
    return { found: [], problems: [`${label}: ${message}`] };
  }
  const { usable, problems } = compileConversion(policy, definition);
  return {
    found: usable === undefined ? [] : [[name, usable.converter]],
    problems: problems.map(({ where, message }) => `${label}: ${where}: ${message}`),
  };
}

/** @param assume called with the name of a CRD whose webhook is not called: then only the `apiVersion` changes */
function createConversion(
  storage: Pick<Storage, 'get'>,
  converters: Converters,
  assume?: (name: string) => void,
): ConvertObjects {
  const asDefined = createDefinedView();
  return async (objects, type) => {
    if (!type.custom) return objects;
    const name = groupResourceName(type);
    const definition = storage.get(DEFINITIONS, { namespace: '', name });
    const convert = createConverter(
      (_client, review) => answer(review, name, converters.get(name)),
      () => 'review',
    );
    const isAssumed = assume !== undefined && !converters.has(name) && isForeign(objects, definition, type);
    if (isAssumed) assume(name);
    const converted =
      definition === undefined || isAssumed
        ? objects.map((object): ApiObject => ({ ...object, apiVersion: apiVersionOf(type) }))
        : await convert(objects, definition, apiVersionOf(type));
    return converted.map((object) => asDefined(object, type));
  };
}

const isForeign = (
  objects: readonly ApiObject[],
  definition: ApiObject | undefined,
  type: ResourceType,
): boolean =>
  definition !== undefined &&
  textIn(toJson(definition), 'spec', 'conversion', 'strategy') === 'Webhook' &&
  objects.some(({ apiVersion }) => apiVersion !== apiVersionOf(type));

const CONVERSION_TIMEOUT_MS = 30_000;

async function answer(
  review: JsonObject,
  name: string,
  converter: Converter | undefined,
): Promise<JsonObject> {
  if (converter === undefined)
    throw new Error(
      `no ConversionPolicy and no handler in the input converts ${name}; other webhooks are not called`,
    );
  const request = valueIn(review, 'request');
  const apiVersion = textIn(request, 'desiredAPIVersion');
  const { version } = splitApiVersion(apiVersion);
  const convertedObjects: JsonValue[] = [];
  for (const object of listIn(request, 'objects').filter(isJsonObject)) {
    const converted = await converter.convert(object, version, AbortSignal.timeout(CONVERSION_TIMEOUT_MS));
    convertedObjects.push({ ...converted, apiVersion, kind: textIn(object, 'kind') });
  }
  return {
    apiVersion: textIn(review, 'apiVersion'),
    kind: 'ConversionReview',
    response: { uid: textIn(request, 'uid'), result: { status: 'Success' }, convertedObjects },
  };
}

interface View {
  readonly world: RequestWorld;
  readonly handlerWorld: HandlerWorld;
}

function createCalls(
  policies: readonly CompiledPolicy[],
  handlers: readonly CompiledHandler[],
  now: Date,
): (view: View, record: Recording) => CallWebhook {
  const set = buildPolicySet(policies);
  const byName = new Map(handlers.map((handler) => [handler.name, handler]));

  const callPolicies = async (entry: string, call: WebhookCall): Promise<Decision> => {
    const { phase, request, signal, world, record } = call;
    const selection = set.select(entry, request);
    if (selection.kind !== 'governed') return ALLOWED;
    for (const { name } of selection.policies) record.policies.add(name);
    const judge = phase === 'mutate' ? mutate : isDeletionEntry(entry) ? checkTargetDeletion : validate;
    return await judge(request, selection.policies, { world, signal, now: now.getTime() });
  };

  const runHandler = async (name: string, call: WebhookCall): Promise<Decision> => {
    const { phase, request, signal, handlerWorld: world, record } = call;
    const handler = byName.get(name);
    if (handler === undefined) return ALLOWED;
    record.handlers.add(name);
    const log = logFor(name);
    const { decision, failure } = await inHandler(name, () =>
      callHandler({ handler, phase, request, world, signal, log }),
    );
    if (failure === undefined) return decision;
    log.error('handler failed', { err: failure.cause });
    const message = `handler ${name} failed: ${String(failure.cause)}`;
    // A user of the command sees the cause; users of a cluster are referred to the log.
    if (decision.kind === 'deny' && decision.message === failure.message) return { ...decision, message };
    record.failures.push(message);
    return decision;
  };

  return (view, record) =>
    async ({ service }, body, timeoutMs) => {
      const [, path = '', entry = ''] = (service?.path ?? '').split('/');
      const phase = path === 'mutate' ? 'mutate' : 'validate';
      const request = parseReview(body);
      const handler = handlerOfEntry(entry);
      const call: WebhookCall = { ...view, phase, request, record, signal: AbortSignal.timeout(timeoutMs) };
      const decision = await (handler === undefined ? callPolicies(entry, call) : runHandler(handler, call));
      recordDecision(record, decision);
      const toReview = phase === 'mutate' ? toMutatingReview : toValidatingReview;
      return toReview(request, decision) as unknown as JsonValue; // the review is JSON
    };
}

/** Handlers log to standard error, so that they do not disturb the result. */
export function logFor(handler: string): HandlerLog {
  const write = (message: string, fields: object = {}) => {
    const { err, ...others } = fields as { readonly err?: unknown };
    const shown = Object.keys(others).length === 0 ? '' : ` ${stringifyJson(others)}`;
    console.error(`handler ${handler}: ${message}${shown}`);
    if (err instanceof Error) console.error(err.stack ?? err.message);
  };
  return { debug: () => undefined, info: write, warn: write, error: write };
}

interface WebhookCall extends View {
  readonly phase: HandlerPhase;
  readonly request: AdmissionRequest;
  readonly signal: AbortSignal;
  readonly record: Recording;
}
