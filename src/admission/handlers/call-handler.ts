/** One handler, one request. */
import { isBeingDeleted } from '../policy/references/check-references.ts';
import { ALLOWED, type Decision } from '../review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import { writes, type AdmissionRequest } from '../review/request.ts';
import { quote } from '../../json/shown.ts';
import { shapeProblem } from './draft-shape.ts';
import { copyJson, InvalidDraft } from './draft.ts';
import { Denial } from './denial.ts';
import { HandlerFailure, readFailureOf, toError, type FailureReason } from './failure.ts';
import { deepFreeze } from './frozen.ts';
import type { CompiledHandler, HandlerFunction } from './compile-handler.ts';
import type { HandlerContext, HandlerLog, HandlerRequest } from './handler-context.ts';
import { toHandlerDecision } from './handler-decision.ts';
import type { HandlerWorld } from './handler-world.ts';
import { createNotes, type Notes, type Said } from './notes.ts';
import { createReader, type Reader } from './reader.ts';

export type HandlerPhase = 'mutate' | 'validate';

export interface HandlerCall {
  readonly handler: CompiledHandler;
  readonly phase: HandlerPhase;
  readonly request: AdmissionRequest;
  /** As it is by now, where others changed it before. Default: as it was sent. */
  readonly object?: JsonObject;
  readonly world: HandlerWorld;
  /** Ends the wait for the handler. */
  readonly signal: AbortSignal;
  readonly log: HandlerLog;
}

export interface HandlerOutcome {
  /** Undefined: the handler failed, and the API server's failurePolicy is to judge. */
  readonly decision: Decision | undefined;
  /** What became of the object. */
  readonly object: JsonObject | undefined;
  /** Whatever was decided in spite of it. */
  readonly failure: HandlerFailure | undefined;
}

/** How one run of the function ended. */
export interface Run {
  readonly said: Said;
  /** The object as it is to be. */
  readonly object: JsonObject | undefined;
  readonly failure: HandlerFailure | undefined;
}

/** Runs the handler and never throws: whatever it does becomes a decision or a failure. */
export async function callHandler(call: HandlerCall): Promise<HandlerOutcome> {
  const act = call.handler[call.phase];
  const object = call.object ?? call.request.object;
  if (act === undefined || (call.phase === 'mutate' && !isMutable(call.request)))
    return { decision: ALLOWED, object, failure: undefined };
  const first = await run(call, act, 'cache');
  const isDoubtful = first.said.denials.length > 0 && first.usedCache && !call.signal.aborted;
  const { said, ...rest } = isDoubtful ? await run(call, act, 'live') : first;
  return toHandlerDecision(call, { said, ...rest });
}

/** A change to an object on its way out helps nobody, and could keep its finalizers from being removed. */
function isMutable({ operation, object }: AdmissionRequest): boolean {
  return writes(operation) && object !== undefined && !isBeingDeleted(object);
}

async function run(
  call: HandlerCall,
  act: HandlerFunction,
  from: 'cache' | 'live',
): Promise<Run & { readonly usedCache: boolean }> {
  const { handler, phase, request, world, signal, log } = call;
  const before = call.object ?? request.object;
  const notes = createNotes((denial) => {
    log.error('it refused when the request had been answered: await whatever may refuse', { err: denial });
  });
  const reader = createReader({ handler, namespace: request.namespace, world, from, signal });
  const end = (object: JsonObject | undefined, failure?: HandlerFailure) => ({
    said: notes.close(),
    object,
    failure,
    usedCache: reader.hasUsedCache(),
  });
  try {
    const subject = before ?? request.oldObject;
    if (subject === undefined) throw new Error('the request holds no object');
    const argument = phase === 'mutate' ? copyJson(subject) : deepFreeze(subject);
    const context = contextFor(call, subject, notes, reader);
    const answer: unknown = await within(signal, async () => await act(argument, context));
    if (answer instanceof Denial) notes.add(answer);
    else if (!isSilence(answer, argument, phase)) throw new WrongAnswer(answer, phase);
    return end(phase === 'mutate' ? changed(argument, subject) : before);
  } catch (thrown) {
    if (!(thrown instanceof Denial)) {
      return end(before, new HandlerFailure(handler.name, reasonOf(thrown, signal), toError(thrown)));
    }
    notes.add(thrown);
    return end(before);
  }
}

function contextFor(
  { request, signal, log }: HandlerCall,
  subject: JsonObject,
  { deny, warn, audit }: Notes,
  { get, list }: Reader,
): HandlerContext<object> {
  return Object.freeze({
    request: toHandlerRequest(request),
    original: deepFreeze(request.object ?? request.oldObject ?? subject),
    oldObject: request.oldObject === undefined ? undefined : deepFreeze(request.oldObject),
    ...{ deny, warn, audit, get, list, signal, log },
  });
}

/** The result of `work`, or the reason of `signal` if that comes first: an endless promise is left behind. */
async function within<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const { promise: over, reject } = Promise.withResolvers<never>();
  const onAbort = () => {
    reject(toError(signal.reason));
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(), over]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** The draft as it will be sent, safe from whatever the handler has left running. */
function changed(draft: object, before: JsonObject): JsonObject {
  const after = copyJson(draft);
  const problem = shapeProblem(before, after);
  if (problem !== undefined) throw new InvalidDraft(problem);
  return after;
}

/** Handlers answer with nothing or with a refusal; one that gives back its draft means well. */
function isSilence(answer: unknown, argument: object, phase: HandlerPhase): boolean {
  return answer === undefined || answer === null || (phase === 'mutate' && answer === argument);
}

class WrongAnswer extends Error {
  override readonly name = 'WrongAnswer';

  constructor(answer: unknown, phase: HandlerPhase) {
    const instead =
      phase === 'mutate'
        ? 'change the draft and return nothing'
        : 'return nothing to accept, or context.deny(…) to refuse';
    super(`${phase} returned ${quote(answer)}, which is no answer: ${instead}`);
  }
}

function reasonOf(thrown: unknown, signal: AbortSignal): FailureReason {
  if (signal.aborted) return 'timeout';
  if (thrown instanceof InvalidDraft) return 'draft';
  if (thrown instanceof WrongAnswer) return 'result';
  return readFailureOf(thrown) ?? 'exception';
}

function toHandlerRequest(request: AdmissionRequest): HandlerRequest {
  const { uid, kind, resource, subResource, requestKind, requestResource } = request;
  const { name, namespace, operation, userInfo: user, dryRun, options } = request;
  return deepFreeze({
    ...{ uid, kind, resource, subResource, requestKind, requestResource },
    ...{ name, namespace, operation, user, dryRun, options },
  });
}
