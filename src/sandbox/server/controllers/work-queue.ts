/** As many as kube-controller-manager's garbage collector has workers: deletions may wait for webhooks. */
const AT_ONCE = 20;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 10_000;

export interface WorkQueue {
  /** Has `work` look at `key` soon, once however often this is called before it does. */
  readonly add: (key: string) => void;
  /** Starts nothing more. What is under way ends by itself. */
  readonly stop: () => void;
}

export interface WorkQueueDeps {
  /** Judges from the world as it is now, since a key says nothing of what happened. Called again later when it throws. */
  readonly work: (key: string) => void | Promise<void>;
  readonly onError: (error: unknown) => void;
}

/** Work begins in a later turn of the event loop, so that whoever caused it by a write has its answer first. */
export function createWorkQueue({ work, onError }: WorkQueueDeps): WorkQueue {
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
      if (busy.has(key)) continue; // again, but not twice at a time
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
    timer.unref(); // a sandbox that is done need not wait for it
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
