/** Functions that are called on a change, each until its signal aborts. */
export interface Listeners<Args extends readonly unknown[]> {
  readonly add: (listener: (...args: Args) => void, signal?: AbortSignal) => void;
  readonly tell: (...args: Args) => void;
}

export function createListeners<Args extends readonly unknown[]>(): Listeners<Args> {
  const listeners = new Set<(...args: Args) => void>();
  return {
    add: (listener, signal) => {
      if (signal?.aborted === true) return;
      listeners.add(listener);
      signal?.addEventListener('abort', () => listeners.delete(listener), { once: true });
    },
    tell: (...args) => {
      for (const listener of listeners) listener(...args);
    },
  };
}
