/** A REST client for watches: it lists what the test provides, and no watch reports a change. */
import { onTestFinished } from 'vitest';
import { resolveConfig } from '../../../src/config/config.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { Rest } from '../../../src/kube/rest.ts';
import type { LeaderContext } from '../../../src/runtime/controller.ts';
import { createListeners } from '../../../src/runtime/listeners.ts';
import { createMetrics } from '../../../src/server/metrics/metrics.ts';
import { createCluster, silent } from './fixtures.ts';

type Items = readonly KubeObject[];

export function createListedRest() {
  /** By path. A list that is still a promise has not arrived. */
  const lists = new Map<string, Items | Promise<Items>>();
  const listed: string[] = [];
  const rest: Rest = {
    request: async <T>({ path }: { readonly path: string }) => {
      listed.push(path);
      const items = await (lists.get(path) ?? []);
      return { metadata: { resourceVersion: '1' }, items } as T; // the type that the caller expects
    },
    stream: async function* ({ signal }) {
      await new Promise((resolve) => signal?.addEventListener('abort', resolve));
      yield* [];
    },
    impersonate: () => rest,
  };
  return { rest, lists, listed };
}

/** What a controller of the leader is started with. It watches what the test lists. */
export function createListedContext(change: Partial<Record<keyof LeaderContext, unknown>> = {}) {
  const { rest, ...listed } = createListedRest();
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const context = {
    rest,
    client: createCluster().client,
    rollbacks: createListeners<[]>(),
    metrics: createMetrics(),
    config: resolveConfig({}, {}),
    serverClock: { now: () => new Date() },
    record: () => undefined,
    log: silent,
    ...change,
  } as unknown as LeaderContext; // the parts that controllers use
  return { context, signal: stop.signal, ...listed };
}
