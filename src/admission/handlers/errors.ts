/** Why a handler failed. */
export type FailureReason =
  /** It threw, or its promise was rejected. */
  | 'exception'
  /** It was still running when the response was due. */
  | 'timeout'
  /** It returned a value that is not an answer. */
  | 'result'
  /** The changed object cannot be sent to the API server. */
  | 'draft'
  /** A live read failed; a retry may succeed. */
  | 'read'
  /** A read is impossible: Gatehouse lacks the permission, or the kind does not exist. */
  | 'unreadable';

/** A handler that returned no answer. The message is for users and contains no internals. `cause` is for the log. */
export class HandlerFailure extends Error {
  override readonly name = 'HandlerFailure';
  readonly handler: string;
  readonly reason: FailureReason;

  constructor(handler: string, reason: FailureReason, cause: Error) {
    super(
      reason === 'timeout'
        ? `handler ${handler} did not answer in time`
        : `handler ${handler} failed; the log of Gatehouse says why`,
      { cause },
    );
    this.handler = handler;
    this.reason = reason;
  }
}

/** Thrown by `context.get` and `context.list` if the API server does not answer. */
export class ReadError extends Error {
  override readonly name = 'ReadError';
}

/** Thrown by a HandlerWorld if a retry would not help. It is the cause of a {@link ReadError}. */
export class Unreadable extends Error {
  override readonly name = 'Unreadable';
}

/** The kind of failed read behind a thrown value, even if the handler wrapped it. Undefined for other causes. */
export function readFailureOf(thrown: unknown): 'read' | 'unreadable' | undefined {
  let found: 'read' | undefined;
  for (const error of causesOf(thrown)) {
    if (error instanceof Unreadable) return 'unreadable';
    if (error instanceof ReadError) found = 'read';
  }
  return found;
}

/** Any thrown value as an Error with a stack, whose fields can be read: a getter or a proxy may throw. */
export function toError(thrown: unknown): Error {
  let shown = 'something that cannot be shown';
  try {
    Array.from(causesOf(thrown), ({ message, stack }) => [message, stack]);
    if (thrown instanceof Error) return thrown;
    shown = typeof thrown === 'string' ? JSON.stringify(thrown.slice(0, 256)) : String(thrown).slice(0, 256);
  } catch {
    // e.g. an object without toString
  }
  return new Error(`threw ${shown}, which is not an Error and lacks a stack`);
}

/** The error and its causes. */
function* causesOf(thrown: unknown): Generator<Error> {
  let error = thrown;
  for (let depth = 0; depth < 8 && error instanceof Error; depth += 1) {
    yield error;
    error = error.cause;
  }
}

/** Details of a refusal. */
export interface DenialOptions {
  /** The invalid field, e.g. `spec.disks[1].size`. It precedes the message, and appears in `status.details.causes`. */
  readonly field?: string;
  /** One CamelCase word, the `reason` of the Status. Default: `Forbidden`. */
  readonly reason?: string;
  /**
   * The HTTP status of the refusal, 400 to 599. Default: 403. Avoid 409 and 422: clients treat these as their own
   * conflict or error, and `kubectl apply --force` reacts to 422 by deleting the object.
   */
  readonly code?: number;
}

/** A refusal, created by `context.deny(…)`. The call refuses the request. Returning or throwing the refusal only ends the handler. */
export class Denial extends Error {
  override readonly name = 'Denial';
  readonly field: string | undefined;
  readonly reason: string;
  readonly code: number;

  constructor(message: string, options?: DenialOptions) {
    super(typeof message === 'string' && message.trim() !== '' ? message : 'refused without a reason');
    const { field, reason, code } = options ?? {}; // null in JavaScript
    this.field = typeof field === 'string' && field !== '' ? field : undefined;
    // Ignores invalid options, because an error would turn the refusal into a failure, which may allow the request.
    this.reason = typeof reason === 'string' && REASON.test(reason) ? reason : 'Forbidden';
    this.code = isRefusal(code) ? code : 403;
  }
}

const REASON = /^[A-Z][A-Za-z]{0,62}$/;

const isRefusal = (code: unknown): code is number =>
  typeof code === 'number' && Number.isInteger(code) && code >= 400 && code <= 599;
