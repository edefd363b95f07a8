/** A steady stream of requests, and what became of each. */
import { setTimeout as sleep } from 'node:timers/promises';

export interface Load {
  readonly sent: () => number;
  /** Stops sending, waits for what is under way. */
  readonly stop: () => Promise<{ readonly sent: number; readonly failures: readonly Error[] }>;
}

/** Calls `request` `perSecond` times a second, whether or not the ones before have been answered. */
export function startLoad(perSecond: number, request: (n: number) => Promise<unknown>): Load {
  const failures: Error[] = [];
  const pending = new Set<Promise<void>>();
  const stopping = new AbortController();
  let sent = 0;

  const send = () => {
    const call = request(sent++)
      .then(() => undefined)
      .catch((error: unknown) => {
        failures.push(error instanceof Error ? error : new Error(String(error)));
      })
      .finally(() => pending.delete(call));
    pending.add(call);
  };
  const loop = async () => {
    const started = performance.now();
    while (!stopping.signal.aborted) {
      while (sent < ((performance.now() - started) / 1_000) * perSecond) send();
      await sleep(5);
    }
  };
  const running = loop();
  return {
    sent: () => sent,
    stop: async () => {
      stopping.abort();
      await running;
      await Promise.all(pending);
      return { sent, failures };
    },
  };
}
