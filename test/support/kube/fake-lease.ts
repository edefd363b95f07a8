import { ApiError } from '../../../src/kube/api-error.ts';
import type { KubeClient } from '../../../src/kube/client.ts';
import type { Clock } from '../../../src/kube/clock.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';

/** A clock that only tests move. `jump` moves it without running timers, as a suspended process experiences it. */
export function manualClock(start = Date.parse('2026-01-01T00:00:00Z')): Clock & {
  readonly advance: (ms: number) => Promise<void>;
  readonly jump: (ms: number) => void;
  readonly setWall: (ms: number) => void;
} {
  let passed = 0;
  let wall = start;
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  return {
    now: () => wall,
    monotonic: () => passed,
    after: (ms, run) => {
      const timer = { at: passed + ms, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    jump: (ms) => {
      passed += ms;
      wall += ms;
    },
    setWall: (ms) => {
      wall = ms;
    },
    advance: async (ms) => {
      const end = passed + ms;
      await settle();
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        const step = Math.max(0, next.at - passed);
        passed += step;
        wall += step;
        next.run();
        await settle();
      }
      wall += Math.max(0, end - passed);
      passed = Math.max(passed, end);
      await settle();
    },
  };
}

export async function settle(): Promise<void> {
  for (let i = 0; i < 60; i++) await Promise.resolve();
}

export interface FakeObject {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly current: () => KubeObject | undefined;
  readonly put: (object: KubeObject | undefined) => void;
  /** `reject`: the request never arrives. `lose-answer`: the request arrives, but the response does not. */
  fault: 'none' | 'reject' | 'lose-answer';
  readonly writes: KubeObject[];
}

export function fakeObject(): FakeObject {
  let current: KubeObject | undefined;
  let version = 0;
  const writes: KubeObject[] = [];
  const refuse = (code: number, reason: string) =>
    new ApiError({ method: 'PUT', path: '/lease' }, { code, status: { reason } });
  const store = (object: KubeObject): KubeObject => {
    current = structuredClone({
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(++version) },
    });
    return structuredClone(current);
  };
  const answer = async (act: () => KubeObject | undefined): Promise<KubeObject | undefined> => {
    await Promise.resolve();
    if (fake.fault === 'reject') throw new Error('no route to host');
    const result = act();
    if (fake.fault === 'lose-answer') throw new Error('connection reset');
    return result;
  };
  const write = (object: KubeObject): KubeObject => {
    writes.push(object);
    return store(object);
  };
  const fake: FakeObject = {
    fault: 'none',
    writes,
    current: () => current,
    put: (object) => {
      if (object === undefined) current = undefined;
      else store(object);
    },
    client: {
      get: (async () => answer(() => structuredClone(current))) as KubeClient['get'],
      create: (async (_resource, object) =>
        answer(() => {
          if (current !== undefined) throw refuse(409, 'AlreadyExists');
          return write(object);
        })) as KubeClient['create'],
      replace: (async (_resource, object) =>
        answer(() => {
          if (current === undefined) throw refuse(404, 'NotFound');
          if (object.metadata?.resourceVersion !== current.metadata?.resourceVersion)
            throw refuse(409, 'Conflict');
          return write(object);
        })) as KubeClient['replace'],
    },
  };
  return fake;
}
