/**
 * Errors outside of a handler's call, such as a late rejection. By default Node ends the process, which serves others.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

import { toError } from '../../admission/handlers/errors.ts';

const running = new AsyncLocalStorage<string>();

export function inHandler<T>(name: string, work: () => T): T {
  return running.run(name, work);
}

/** @param folder of the handlers. An error that has lost its async context is recognised by it in its stack */
export function surviveStrayErrors(
  folder: string,
  onStray: (handler: string | undefined, error: Error) => void,
  signal: AbortSignal,
): void {
  const isOfHandlers = (handler: string | undefined, error: Error) =>
    handler !== undefined || String(error.stack).includes(folder); // a handler may set any value
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
