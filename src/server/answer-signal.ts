import { answerWithin } from './deadline.ts';
import type { Reply } from './answer.ts';

/** The time in which an answer is of use. */
export interface Deadline {
  /** See {@link answerSignal}. Made when it is first asked for: what is decided at once needs none. */
  readonly signal: AbortSignal;
}

export function createDeadline(timeout: string | undefined, reply: Reply): Deadline {
  const began = performance.now();
  let made: AbortSignal | undefined;
  return {
    get signal() {
      return (made ??= answerSignal(timeout, reply, performance.now() - began));
    },
  };
}

/**
 * Aborts when the time to answer is over, or when the API server has hung up.
 * @param timeout as it stands in the query, e.g. `10s`
 * @param passedMs of it
 */
export function answerSignal(timeout: string | undefined, reply: Reply, passedMs = 0): AbortSignal {
  const controller = new AbortController();
  const timer = setTimeout(
    () => {
      controller.abort(new Error('the time to answer is over'));
    },
    answerWithin(timeout) - passedMs,
  );
  reply.raw.once('close', () => {
    clearTimeout(timer);
    if (!reply.raw.writableFinished) controller.abort(new Error('the API server hung up'));
  });
  return controller.signal;
}
