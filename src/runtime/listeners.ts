export type Listeners<Args extends readonly unknown[]> = ReturnType<typeof createListeners<Args>>;

/** Functions that are called on a change, each until its signal aborts. */
export function createListeners<Args extends readonly unknown[]>() {
  const listeners = new Set<(...args: Args) => void>();
  return {
    add: (listener: (...args: Args) => void, signal?: AbortSignal): void => {
      if (signal?.aborted === true) return;
      listeners.add(listener);
      signal?.addEventListener('abort', () => listeners.delete(listener), { once: true });
    },
    tell: (...args: Args): void => {
      for (const listener of listeners) listener(...args);
    },
  };
}
