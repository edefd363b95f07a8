/** The API server of a review: the kinds, policies and handlers of the input, behind the webhooks of Gatehouse. */
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import { grantsIn } from '../../admission/policy/exceptions/grants.ts';
import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import { compileHandlers, type LoadedHandler } from '../../runtime/handlers/load-handlers.ts';
import { createApiServer } from './api-server.ts';
import { withoutQuestions } from './authorizer-rules.ts';
import { createConversion, readConverters } from './conversions.ts';
import { refuse } from './input.ts';
import { compilePolicies, conditionProblems, readExceptions } from './policies.ts';
import { createSnapshot, type SnapshotInput } from './snapshot.ts';
import { createCalls } from './webhook-calls.ts';

export interface ReviewContext {
  readonly handlers: readonly LoadedHandler[];
  readonly logFor: (handler: string) => HandlerLog;
  /** The namespace of Gatehouse, which no policy governs. */
  readonly ownNamespace: string;
  readonly now: Date;
  /** See {@link createConversion}. */
  readonly assumeConverted?: (name: string) => void;
}

export type Stage = ReturnType<typeof createStage>;

/** A placeholder: no connection is made. */
const SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };

/** @throws UnusableInput and InvalidHandlers with all problems of CRDs, policies and handlers */
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
    api: createApiServer(
      kinds.registry,
      storage,
      createConversion(storage, converters, context.assumeConverted),
      webhooks,
    ),
    calls: createCalls(policies.map(withoutQuestions), handlers, context.logFor, now),
  };
}
