/**
 * Stray errors: errors that a handler raises outside of its call, such as a promise that is rejected after the answer,
 * or a timer that throws. By default, Node ends the process. This process also serves other handlers and policies, so
 * it continues. It still ends for stray errors of Gatehouse itself.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

import { toError } from '../../admission/handlers/errors.ts';

const running = new AsyncLocalStorage<string>();

/** Runs `work`, and attributes its stray errors to this handler, however late they occur. */
export function inHandler<T>(name: string, work: () => T): T {
  return running.run(name, work);
}

/**
 * Keeps the process alive after stray errors of handlers, until the signal aborts.
 * @param folder the folder of the handlers. An error that has lost its async context is recognised by this folder in its
 * stack
 */
export function surviveStrayErrors(
  folder: string,
  onStray: (handler: string | undefined, error: Error) => void,
  signal: AbortSignal,
): void {
  const isOfHandlers = (handler: string | undefined, error: Error) =>
    handler !== undefined || error.stack?.includes(folder) === true;
  const onRejection = (reason: unknown) => {
    const handler = running.getStore();
    const error = toError(reason);
    if (!isOfHandlers(handler, error)) throw error; // as Node does by default: it becomes an uncaught exception
    onStray(handler, error);
  };
  const onException = (thrown: unknown) => {
    const handler = running.getStore();
    const error = toError(thrown);
    if (isOfHandlers(handler, error)) {
      onStray(handler, error);
      return;
    }
    console.error('uncaught exception:', error);
    process.exit(1);
  };
  process.on('unhandledRejection', onRejection);
  process.on('uncaughtException', onException);
  signal.addEventListener('abort', () => {
    process.off('unhandledRejection', onRejection);
    process.off('uncaughtException', onException);
  });
}
