import type { KubeClient } from '../../../src/kube/client.ts';
import { objectKey, type KubeObject } from '../../../src/json/kube-object.ts';
import { createObjects } from '../runtime/fixtures.ts';

/** A clock that only tests move. `jump` moves it without running timers, as a suspended process experiences it. */
export function manualClock(start = Date.parse('2026-01-01T00:00:00Z')) {
  let passed = 0;
  let wall = start;
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  return {
    now: () => wall,
    monotonic: () => passed,
    after: (ms: number, run: () => void) => {
      const timer = { at: passed + ms, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    jump: (ms: number) => {
      passed += ms;
      wall += ms;
    },
    setWall: (ms: number) => void (wall = ms),
    advance: async (ms: number) => {
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

export type FakeObject = ReturnType<typeof fakeObject>;

export function fakeObject() {
  const objects = createObjects<KubeObject>();
  const writes: KubeObject[] = [];
  const current = () => objects.list()[0];
  const answer = async <T>(act: () => T | Promise<T>): Promise<T> => {
    await Promise.resolve();
    if (fake.fault === 'reject') throw new Error('no route to host');
    const result = await act();
    if (fake.fault === 'lose-answer') throw new Error('connection reset');
    return result;
  };
  const write = async (object: KubeObject, sent: Promise<KubeObject>): Promise<KubeObject> => {
    const stored = await sent;
    writes.push(object);
    return stored;
  };
  const fake = {
    /** `reject`: the request never arrives. `lose-answer`: the request arrives, but the response does not. */
    fault: 'none' as 'none' | 'reject' | 'lose-answer',
    writes,
    current,
    put: (object: KubeObject | undefined) => {
      for (const { metadata } of objects.list()) objects.remove(objectKey(metadata ?? {}));
      if (object !== undefined) objects.add(object);
    },
    client: {
      get: (async () => answer(current)) as KubeClient['get'],
      create: (async (_resource, object) =>
        answer(() => write(object, objects.create(object)))) as KubeClient['create'],
      replace: (async (_resource, object) =>
        answer(() => write(object, objects.replace(object)))) as KubeClient['replace'],
    },
  };
  return fake;
}
