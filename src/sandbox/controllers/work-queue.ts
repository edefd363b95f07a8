/** The number of workers of kube-controller-manager's garbage collector: deletions may wait for webhooks. */
const AT_ONCE = 20;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 10_000;

/** Several calls of `add` before the work starts count as one. Work starts later, so that the client is answered first. */
export function createWorkQueue(
  work: (key: string) => void | Promise<void>,
  onError: (error: unknown) => void,
) {
  const waiting = new Set<string>();
  const busy = new Set<string>();
  const failures = new Map<string, number>();
  const retries = new Set<NodeJS.Timeout>();
  let turn: NodeJS.Immediate | undefined;
  let stopped = false;

  const schedule = () => {
    if (stopped || waiting.size === 0 || turn !== undefined) return;
    turn = setImmediate(takeTurn);
  };

  const takeTurn = () => {
    turn = undefined;
    for (const key of waiting) {
      if (busy.size >= AT_ONCE) return;
      if (busy.has(key)) continue; // process it again, but not concurrently
      waiting.delete(key);
      void run(key);
    }
  };

  const run = async (key: string) => {
    busy.add(key);
    try {
      await work(key);
      failures.delete(key);
    } catch (error) {
      onError(error);
      retry(key);
    } finally {
      busy.delete(key);
      schedule();
    }
  };

  const retry = (key: string) => {
    if (stopped) return;
    const times = failures.get(key) ?? 0;
    failures.set(key, times + 1);
    const timer = setTimeout(
      () => {
        retries.delete(timer);
        add(key);
      },
      Math.min(FIRST_RETRY_MS * 2 ** times, LAST_RETRY_MS),
    );
    timer.unref(); // a stopping sandbox need not wait for a retry
    retries.add(timer);
  };

  const add = (key: string) => {
    waiting.add(key);
    schedule();
  };

  return {
    add,
    stop: () => {
      stopped = true;
      clearImmediate(turn);
      for (const timer of retries) clearTimeout(timer);
    },
  };
}
