/** A steady stream of requests, and the outcome of each. */
import { setTimeout as sleep } from 'node:timers/promises';

import { toError } from '../../src/admission/handlers/errors.ts';
import { resourcePath } from '../../src/kube/object.ts';
import { SERVERS, type Cluster } from './cluster.ts';
import { server } from './objects.ts';
import { createPlainClient } from './plain-client.ts';

export type Load = ReturnType<typeof startLoad>;

export interface LoadOptions {
  readonly perSecond: number;
  /** Maximum number of requests in flight: the machine then determines the rate. Default: no limit. */
  readonly lanes?: number;
  readonly request: (n: number) => Promise<unknown>;
}

/** After a pause, the load catches up on requests of at most this many seconds; it drops the rest. */
const BURST_SECONDS = 1;

export function startLoad({ perSecond, lanes = Number.POSITIVE_INFINITY, request }: LoadOptions) {
  const failures: Error[] = [];
  const pending = new Set<Promise<void>>();
  const stopping = new AbortController();
  const started = performance.now();
  let sent = 0;
  let paused = false;

  const send = () => {
    const call = request(sent++)
      .then(() => undefined)
      .catch((error: unknown) => void failures.push(toError(error)))
      .finally(() => pending.delete(call));
    pending.add(call);
  };
  const loop = async () => {
    let tokens = 0;
    let refilledAt = started;
    while (!stopping.signal.aborted) {
      const now = performance.now();
      tokens = Math.min(perSecond * BURST_SECONDS, tokens + ((now - refilledAt) / 1_000) * perSecond);
      refilledAt = now;
      for (; tokens >= 1 && pending.size < lanes && !paused; tokens -= 1) send();
      await sleep(5);
    }
  };
  const running = loop();
  return {
    sent: () => sent,
    between: async <T>(work: () => Promise<T>) => {
      paused = true;
      try {
        await Promise.all(pending);
        return await work();
      } finally {
        paused = false;
      }
    },
    stop: async () => {
      stopping.abort();
      await running;
      await Promise.all(pending);
      return { sent, failures, seconds: (performance.now() - started) / 1_000 };
    },
  };
}

export function createAdmitter({ plane }: Cluster, lanes: number) {
  const { ask, stop } = createPlainClient(plane, lanes);
  const path = `${resourcePath(SERVERS, { namespace: 'shop' })}?dryRun=All`;
  return {
    admit: async (n: number): Promise<void> => {
      const { code, text } = await ask({ method: 'POST', path, body: server('shop', `load-${n}`, 'fra1') });
      if (code !== 201) throw new Error(`${code} ${text}`);
    },
    stop,
  };
}
