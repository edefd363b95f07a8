import { isFinalizerRemoval, withoutAddedFinalizers } from '../policy/deletion/deletion.ts';
import { ALLOWED } from '../review/decision.ts';
import { deepFreeze, type JsonObject } from '../../json/json.ts';
import { type AdmissionRequest, writes } from '../review/request.ts';
import { quote } from '../../json/printable.ts';
import { copyJson, InvalidDraft, shapeProblem } from './draft.ts';
import { createRecorder, type Recorder } from './recorder.ts';
import { Denial, type FailureReason, HandlerFailure, readFailureOf, toError } from './errors.ts';
import type { HandlerContext, HandlerRequest } from './handler.ts';
import type { HandlerFunction } from './compile-handler.ts';
import {
  type HandlerCall,
  type HandlerOutcome,
  type HandlerPhase,
  type Run,
  toHandlerOutcome,
} from './handler-decision.ts';
import { createReader, type Reader } from './reader.ts';
import { orAborted } from '../../json/abort.ts';

/** Runs the handler. Never throws: every result becomes a decision or a failure. */
export async function callHandler(call: HandlerCall): Promise<HandlerOutcome> {
  const act = call.handler[call.phase];
  const object = call.object ?? call.request.object;
  // A handler that knows only the object would block the removal of finalizers forever, or put them back.
  if (act === undefined || isFinalizerRemoval(call.request) || !isCalled(call))
    return { decision: ALLOWED, object, failure: undefined };
  const first = await run(call, act, 'cache');
  const mayBeStale = first.recorded.denials.length > 0 && first.usedCache && !call.signal.aborted;
  return toHandlerOutcome(call, mayBeStale ? await run(call, act, 'live') : first);
}

const isCalled = ({ phase, request: { operation, object } }: HandlerCall): boolean =>
  phase === 'validate' || (writes(operation) && object !== undefined);

async function run(
  call: HandlerCall,
  act: HandlerFunction,
  from: 'cache' | 'live',
): Promise<Run & { readonly usedCache: boolean }> {
  const { handler, phase, request, world, signal, log } = call;
  const before = call.object ?? request.object;
  const recorder = createRecorder(log);
  const reader = createReader({ handler, namespace: request.namespace, world, from, signal });
  const end = (object: JsonObject | undefined, failure?: HandlerFailure) => ({
    recorded: recorder.close(),
    object,
    failure,
    usedCache: reader.hasUsedCache(),
  });
  try {
    const subject = before ?? request.oldObject;
    if (subject === undefined) throw new Error('the request lacks an object');
    const argument = phase === 'mutate' ? copyJson(subject) : deepFreeze(subject);
    const context = contextFor(call, subject, recorder, reader);
    signal.throwIfAborted();
    const acting = (async (): Promise<unknown> => await act(argument, context))();
    const answer = await orAborted(acting, signal, ({ reason }) => toError(reason));
    if (answer instanceof Denial) recorder.add(answer);
    else if (!isSilence(answer, argument, phase)) throw new WrongAnswer(answer, phase);
    return end(phase === 'mutate' ? withoutAddedFinalizers(request, changed(argument, subject)) : before);
  } catch (thrown) {
    const error = toError(thrown);
    if (!(error instanceof Denial))
      return end(before, new HandlerFailure(handler.name, reasonOf(error, signal), error));
    recorder.add(error);
    return end(before);
  }
}

function contextFor(
  { request, signal, log }: HandlerCall,
  subject: JsonObject,
  { deny, warn, audit }: Recorder,
  { get, list }: Reader,
): HandlerContext<object> {
  return Object.freeze({
    request: toHandlerRequest(request),
    original: deepFreeze(request.object ?? request.oldObject ?? subject),
    oldObject: request.oldObject === undefined ? undefined : deepFreeze(request.oldObject),
    deny,
    warn,
    audit,
    get,
    list,
    signal,
    log,
  });
}

/** A copy of the draft to send, which work that the handler left running cannot change. */
function changed(draft: object, before: JsonObject): JsonObject {
  const after = copyJson(draft);
  const problem = shapeProblem(before, after);
  if (problem !== undefined) throw new InvalidDraft(problem);
  return after;
}

/** A handler returns nothing or a refusal. Returning its draft from `mutate` counts as nothing. */
const isSilence = (answer: unknown, argument: object, phase: HandlerPhase): boolean =>
  answer === undefined || answer === null || (phase === 'mutate' && answer === argument);

class WrongAnswer extends Error {
  override readonly name = 'WrongAnswer';

  constructor(answer: unknown, phase: HandlerPhase) {
    const instead =
      phase === 'mutate'
        ? 'change the draft and return nothing'
        : 'return nothing to accept, or context.deny(…) to refuse';
    super(`${phase} returned ${quote(answer)}, which is not a valid result; ${instead}`);
  }
}

function reasonOf(error: Error, signal: AbortSignal): FailureReason {
  if (signal.aborted) return 'timeout';
  if (error instanceof InvalidDraft) return 'draft';
  if (error instanceof WrongAnswer) return 'result';
  return readFailureOf(error) ?? 'exception';
}

function toHandlerRequest(request: AdmissionRequest): HandlerRequest {
  const { uid, kind, resource, subResource, requestKind, requestResource } = request;
  const { name, namespace, operation, userInfo: user, dryRun, options } = request;
  return deepFreeze({
    uid,
    kind,
    resource,
    subResource,
    requestKind,
    requestResource,
    name,
    namespace,
    operation,
    user,
    dryRun,
    options,
  });
}
