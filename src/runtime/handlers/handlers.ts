/** The handlers of this process. They are loaded once; each webhook entry names the handler to call. */
import { resolve } from 'node:path';

import type { Converter } from '../../admission/conversion/converter.ts';
import type { Decision } from '../../admission/review/decision.ts';
import { callHandler } from '../../admission/handlers/call-handler.ts';
import type { HandlerOutcome, HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import { compileController, type CompiledController } from '../../controllers/compile-controller.ts';
import { isGoverned, type CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import type { HandlerOutcomeLabel } from '../../server/metrics/metrics.ts';
import { untilPassed, type HealthCheck } from '../../server/health.ts';
import { compileHandlers, loadModules, NOTHING, type Loaded } from './load-handlers.ts';
import type { Context } from '../context.ts';
import { createHandlerStores } from './handler-stores.ts';
import { createHandlerWorld } from './handler-world.ts';
import { inHandler, surviveStrayErrors } from './stray-errors.ts';

export interface Handlers {
  readonly all: readonly CompiledHandler[];
  /** They run where this process leads. */
  readonly controllers: readonly CompiledController[];
  /** The handlers that convert objects. */
  readonly converters: readonly Converter[];
  /**
   * Undefined when this process has no handler of this name and phase, or the handler does not govern the request.
   */
  readonly decide: (
    phase: HandlerPhase,
    name: string,
    request: AdmissionRequest,
    signal: AbortSignal,
  ) => Promise<Decision | undefined>;
  readonly check: HealthCheck;
}

export const NO_HANDLERS: Handlers = {
  all: [],
  controllers: [],
  converters: [],
  decide: () => Promise.resolve(undefined),
  check: () => undefined,
};

/**
 * Loads the handlers from `source`. Until `signal` aborts, stray errors of handlers do not end the process.
 *
 * @throws InvalidHandlers with all problems of the handlers
 */
export async function openHandlers(
  source: string | undefined,
  { metrics, log }: Pick<Context, 'metrics' | 'log'>,
  signal: AbortSignal,
): Promise<Loaded> {
  if (source === undefined) return NOTHING;
  const onStray = (handler = 'unknown', err: Error) => {
    metrics.handlerFailure(handler, 'stray');
    log.error(
      { handler, err },
      'a handler raised an error outside of a call: await all promises in the handler',
    );
  };
  surviveStrayErrors(resolve(source), onStray, signal);
  return await inHandler('loading', () => loadModules(source, process.cwd()));
}

type HandlersContext = Pick<
  Context,
  'client' | 'exact' | 'rollbacks' | 'namespaces' | 'discovery' | 'config' | 'metrics' | 'log'
>;

/** @throws InvalidHandlers with all problems that keep the handlers from being compiled */
export function startHandlers(
  context: HandlersContext,
  { handlers: loaded, controllers }: Loaded,
  signal: AbortSignal,
): Handlers {
  if (loaded.length + controllers.length === 0) return NO_HANDLERS;
  const { client, exact, rollbacks, namespaces, discovery, config, log } = context;
  const all = compileHandlers(loaded, { ownNamespace: config.namespace });
  const stores = createHandlerStores(
    // Handlers compare stored integers with those of requests, so both must be read without loss.
    { ...exact, rollbacks, namespaces, log },
    client,
    discovery,
    all.flatMap(({ reads }) => reads),
    signal,
  );
  for (const { namesReads, reads } of all) if (namesReads) reads.forEach(stores.want);
  const world = createHandlerWorld(exact.client, discovery, stores, namespaces);
  const byName = new Map(all.map((handler) => [handler.name, handler]));
  const names = controllers.map(({ name }) => name);
  log.info({ handlers: [...byName.keys()], controllers: names }, 'handlers loaded');
  return {
    all,
    controllers: controllers.map(({ name, controller }) => compileController(name, controller)),
    converters: all.flatMap(({ name, converter }) =>
      converter === undefined ? [] : [guarded(name, converter)],
    ),
    decide: async (phase, name, request, waiting) => {
      const handler = byName.get(name);
      if (handler?.[phase] === undefined || !isGoverned(handler, request)) return undefined;
      const started = performance.now();
      const call = {
        handler,
        phase,
        request,
        world,
        signal: waiting,
        log: logFor(context, handler, request),
      };
      const outcome = await inHandler(name, () => callHandler(call));
      return settle(context, call, outcome, (performance.now() - started) / 1_000);
    },
    check: untilPassed(() => {
      const unsynced = stores.unsynced();
      return unsynced.length === 0 ? undefined : `not listed yet: ${unsynced.join(', ')}`;
    }),
  };
}

/** Attributes stray errors of a conversion to this handler. */
const guarded = (name: string, converter: Converter): Converter => ({
  ...converter,
  convert: (object, to, signal) => inHandler(name, () => converter.convert(object, to, signal)),
});

function settle(
  { metrics, log }: Pick<Context, 'metrics' | 'log'>,
  { handler, phase, request }: { handler: CompiledHandler; phase: HandlerPhase; request: AdmissionRequest },
  { decision, failure }: HandlerOutcome,
  seconds: number,
): Decision {
  const { name } = handler;
  metrics.handler({ handler: name, webhook: phase, outcome: labelOf({ decision, failure }) }, seconds);
  if (failure !== undefined) {
    metrics.handlerFailure(name, failure.reason);
    const fields = { handler: name, uid: request.uid, reason: failure.reason, onError: handler.onError };
    log.error({ ...fields, err: failure }, 'handler failed');
  }
  return decision;
}

function labelOf({ decision, failure }: Pick<HandlerOutcome, 'decision' | 'failure'>): HandlerOutcomeLabel {
  if (failure?.reason === 'timeout') return 'timeout';
  return failure !== undefined && decision.kind !== 'retry' ? 'error' : decision.kind;
}

/** Keeps the fields of a handler under `fields`, so that a handler cannot imitate log lines of Gatehouse. */
function logFor(
  { log }: Pick<Context, 'log'>,
  { name }: CompiledHandler,
  { uid }: AdmissionRequest,
): HandlerLog {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields: object = {}) =>
      log[level]({ handler: name, uid, fields }, message);
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
