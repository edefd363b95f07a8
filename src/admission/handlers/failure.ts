/** Why a handler gave no answer. */
export type FailureReason =
  /** It threw, or its promise was rejected. */
  | 'exception'
  /** It was still at work when the time to answer was over. */
  | 'timeout'
  /** It returned something that is no answer. */
  | 'result'
  /** What it made of the object cannot be sent to the API server. */
  | 'draft'
  /** The API server did not answer what it asked. */
  | 'read';

/**
 * A handler that gave no answer. The message is for users and says nothing of what went wrong inside; `cause` is for the log.
 */
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

/** Thrown to a handler by `context.get` and `context.list` when the API server does not say what there is. */
export class ReadError extends Error {
  override readonly name = 'ReadError';
}

/** Whether it came of a read, also where the handler has wrapped it. */
export function isOfRead(thrown: unknown): boolean {
  let error = thrown;
  for (let depth = 0; depth < 8 && error instanceof Error; depth += 1) {
    if (error instanceof ReadError) return true;
    error = error.cause;
  }
  return false;
}

/** What was thrown, as an error with a stack, whatever it was. */
export function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  let shown = 'something that cannot be shown';
  try {
    shown = typeof thrown === 'string' ? JSON.stringify(thrown.slice(0, 256)) : String(thrown).slice(0, 256);
  } catch {
    // an object without toString, for example
  }
  return new Error(`threw ${shown}, which is no Error: there is no stack to show`);
}
