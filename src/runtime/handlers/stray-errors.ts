/**
 * Errors that a handler left where nobody waits for them: a promise that is rejected after the answer, a timer that throws. Node
 * ends a process for them. Ours serves others, so it goes on; for errors of its own it ends as it always did.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

import { toError } from '../../admission/handlers/errors.ts';

const running = new AsyncLocalStorage<string>();

/** Runs `work` so that errors which stray from it, however much later, are known to be of this handler. */
export function inHandler<T>(name: string, work: () => T): T {
  return running.run(name, work);
}

export interface StrayErrorsParts {
  /** The folder of the handlers: their code can lose its context, but not its stack. */
  readonly folder: string;
  readonly onStray: (handler: string | undefined, error: Error) => void;
}

/** Until the signal aborts. */
export function surviveStrayErrors({ folder, onStray }: StrayErrorsParts, signal: AbortSignal): void {
  const isOfHandlers = (handler: string | undefined, error: Error) =>
    handler !== undefined || error.stack?.includes(folder) === true;
  const onRejection = (reason: unknown) => {
    const handler = running.getStore();
    const error = toError(reason);
    if (!isOfHandlers(handler, error)) throw error; // as without us: it becomes an uncaught exception
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
