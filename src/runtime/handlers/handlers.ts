/** The handlers of this process: loaded once, asked by webhook entry. */
import { resolve } from 'node:path';

import type { Converter } from '../../admission/conversion/converter.ts';
import type { Decision } from '../../admission/review/decision.ts';
import { callHandler } from '../../admission/handlers/call-handler.ts';
import type { HandlerOutcome, HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import { isGoverned, type CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { canI } from '../../kube/access.ts';
import type { HandlerOutcomeLabel } from '../../server/metrics/metrics.ts';
import { untilPassed, type HealthCheck } from '../../server/health.ts';
import { compileHandlers, loadHandlers, type LoadedHandler } from './load-handlers.ts';
import type { Context } from '../context.ts';
import { createHandlerStores, type HandlerStores } from './handler-stores.ts';
import { createHandlerWorld } from './handler-world.ts';
import { inHandler, surviveStrayErrors } from './stray-errors.ts';

export interface Handlers {
  readonly all: readonly CompiledHandler[];
  /** Those of them that convert. */
  readonly converters: readonly Converter[];
  /**
   * Undefined when this process has no such handler for such a request.
   * @throws HandlerFailure when the handler failed and the API server's failurePolicy is to judge
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
  converters: [],
  decide: () => Promise.resolve(undefined),
  check: () => undefined,
};

/**
 * The handlers that the setting names. From now on, what they leave behind does not end the process.
 *
 * @throws InvalidHandlers with everything that is wrong with them
 */
export async function openHandlers(
  source: string | undefined,
  { metrics, log }: Pick<Context, 'metrics' | 'log'>,
  signal: AbortSignal,
): Promise<readonly LoadedHandler[]> {
  if (source === undefined) return [];
  const onStray = (handler = 'unknown', err: Error) => {
    metrics.handlerFailure(handler, 'stray');
    log.error({ handler, err }, 'a handler left an error behind: await what it starts');
  };
  surviveStrayErrors({ folder: resolve(source), onStray }, signal);
  return await inHandler('loading', () => loadHandlers(source, process.cwd()));
}

type HandlersContext = Pick<
  Context,
  'client' | 'exact' | 'rollbacks' | 'discovery' | 'config' | 'capabilities' | 'metrics' | 'log'
>;

/** @throws InvalidHandlers with everything that keeps them from being used */
export function startHandlers(
  context: HandlersContext,
  loaded: readonly LoadedHandler[],
  signal: AbortSignal,
): Handlers {
  if (loaded.length === 0) return NO_HANDLERS;
  const { exact, discovery, config, capabilities, log } = context;
  const all = compileHandlers(loaded, { ownNamespace: config.namespace, ...capabilities });
  const stores = storesFor(context, all, signal);
  for (const { namesReads, reads } of all) if (namesReads) reads.forEach(stores.want);
  const world = createHandlerWorld({ client: exact.client, discovery, stores });
  const byName = new Map(all.map((handler) => [handler.name, handler]));
  log.info({ handlers: [...byName.keys()] }, 'handlers loaded');
  return {
    all,
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

function storesFor(
  { client, exact, discovery, rollbacks, log }: HandlersContext,
  all: readonly CompiledHandler[],
  signal: AbortSignal,
): HandlerStores {
  return createHandlerStores(
    {
      // What handlers read may be compared with what is asked for: the same integers have to be the same.
      ...{ ...exact, rollbacks, log },
      resolve: (kind, waiting) => discovery.resolve(kind, waiting),
      canRead: async ({ group, resource }, waiting) => {
        const ask = (verb: string) => canI(client, { verb, group, resource }, { signal: waiting });
        return (await Promise.all(['get', 'list', 'watch'].map(ask))).every(Boolean);
      },
    },
    all.flatMap(({ reads }) => reads),
    signal,
  );
}

/** What a conversion leaves behind is known to be of this handler. */
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
    // One that is thrown is logged by who catches it.
    if (decision !== undefined) log.error({ ...fields, err: failure }, 'handler failed');
  }
  if (decision !== undefined) return decision;
  throw failure ?? new Error(`handler ${name} neither decided nor failed`);
}

function labelOf({ decision, failure }: Pick<HandlerOutcome, 'decision' | 'failure'>): HandlerOutcomeLabel {
  if (failure?.reason === 'timeout') return 'timeout';
  return decision === undefined || (failure !== undefined && decision.kind !== 'retry')
    ? 'error'
    : decision.kind;
}

/** What a handler logs cannot pass for what Gatehouse says: its fields have a place of their own. */
function logFor(
  { log }: Pick<Context, 'log'>,
  { name }: CompiledHandler,
  { uid }: AdmissionRequest,
): HandlerLog {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields: object = {}) => {
      log[level]({ handler: name, uid, fields }, message);
    };
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}
