import { ALLOWED, denied, INTERNAL_ERROR, TRY_AGAIN, type Cause, type Decision } from '../review/decision.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { shorten } from '../../json/printable.ts';
import type { CompiledHandler } from './compile-handler.ts';
import type { JsonObject } from '../../json/json.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { HandlerLog } from './handler.ts';
import type { HandlerWorld } from './handler-world.ts';
import type { Recorded } from './recorder.ts';
import { type Denial, HandlerFailure, toError } from './errors.ts';

export type HandlerPhase = 'mutate' | 'validate';

export interface HandlerCall {
  readonly handler: CompiledHandler;
  readonly phase: HandlerPhase;
  readonly request: AdmissionRequest;
  /** The object after earlier changes. Default: the object of the request. */
  readonly object?: JsonObject;
  readonly world: HandlerWorld;
  readonly signal: AbortSignal;
  readonly log: HandlerLog;
}

export interface HandlerOutcome {
  readonly decision: Decision;
  readonly object: JsonObject | undefined;
  /** Set for every failed handler, even if it refused before. */
  readonly failure: HandlerFailure | undefined;
}

export interface Run extends Omit<HandlerOutcome, 'decision'> {
  readonly recorded: Recorded;
}

/** In characters, because a hostile object can cause a huge message. */
const LONGEST_MESSAGE = 8192;
const LONGEST_FIELD = 256;
const LONGEST_CAUSE = 1024;
/** The key of the audit annotation for a failed handler, if the request continued without it. */
const FAILED_KEY = 'handler-failed';

/** Turns a run into an outcome. A refusal takes precedence over a failure. `onError` decides about a failure. */
export function toHandlerOutcome(call: HandlerCall, { recorded, object, failure }: Run): HandlerOutcome {
  const before = call.object ?? call.request.object;
  const { denials, warnings, auditAnnotations } = recorded;
  const [denial] = denials;
  if (denial !== undefined) {
    const message = shorten(denials.map(describe(call)).join('; '), LONGEST_MESSAGE);
    const { code, reason } = denial;
    const causes = denials.flatMap(toCause(call));
    const notices = { warnings, auditAnnotations };
    return { decision: { kind: 'deny', code, reason, message, causes, ...notices }, object: before, failure };
  }
  if (failure !== undefined) return { decision: onFailure(call, failure), object: before, failure };
  try {
    const patch =
      before === undefined || object === undefined || before === object ? [] : verifiedDiff(before, object);
    return { decision: { kind: 'allow', patch, warnings, auditAnnotations }, object, failure };
  } catch (thrown) {
    const broken = new HandlerFailure(call.handler.name, 'draft', toError(thrown));
    return { decision: onFailure(call, broken), object: before, failure: broken };
  }
}

function onFailure({ handler }: HandlerCall, failure: HandlerFailure): Decision {
  const { name, onError, match } = handler;
  if (onError === 'allow')
    return {
      ...ALLOWED,
      warnings: [`${failure.message}; the request continued without it`],
      auditAnnotations: { [FAILED_KEY]: name },
    };
  if (failure.reason !== 'read') return denied(INTERNAL_ERROR, failure.message);
  const message = `handler ${name} could not read what it needs; try again`;
  // The API server retries within the webhook's timeout. Then it would admit the request under `Ignore`.
  return match.failurePolicy === 'Fail'
    ? { kind: 'retry', message, cause: failure.cause }
    : denied(TRY_AGAIN, message);
}

const describe =
  ({ handler }: HandlerCall) =>
  ({ field, message }: Denial): string =>
    `${field === undefined ? '' : `${shorten(field, LONGEST_FIELD)}: `}${message} (handler ${handler.name})`;

/** With the name of the handler: of an Invalid, kubectl shows only the causes. */
const toCause =
  ({ handler }: HandlerCall) =>
  ({ field = '', message }: Denial): readonly Cause[] =>
    field === ''
      ? []
      : [
          {
            field: shorten(field, LONGEST_FIELD),
            reason: 'FieldValueInvalid',
            message: `${shorten(message, LONGEST_CAUSE)} (handler ${handler.name})`,
          },
        ];
