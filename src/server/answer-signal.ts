import { answerWithin } from './deadline.ts';
import type { Reply } from './answer.ts';

/**
 * Aborts when the time to answer is over, or when the API server has hung up.
 * @param timeout as it stands in the query, e.g. `10s`
 */
export function answerSignal(timeout: string | undefined, reply: Reply): AbortSignal {
  const controller = new AbortController();
  abortInTime(controller, timeout, reply);
  return controller.signal;
}

/** Has `controller` abort as the signal of {@link answerSignal} does. */
export function abortInTime(controller: AbortController, timeout: string | undefined, reply: Reply): void {
  const timer = setTimeout(() => {
    controller.abort(new Error('the time to answer is over'));
  }, answerWithin(timeout));
  reply.raw.once('close', () => {
    clearTimeout(timer);
    if (!reply.raw.writableFinished) controller.abort(new Error('the API server hung up'));
  });
}
