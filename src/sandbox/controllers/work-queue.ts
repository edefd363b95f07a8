import { createWorkqueue } from '../../kube/workqueue.ts';

/** The number of workers of kube-controller-manager's garbage collector: deletions may wait for webhooks. */
const WORKERS = 20;

export function createWorkQueue(
  work: (key: string) => void | Promise<void>,
  onError: (error: unknown) => void,
) {
  const queue = createWorkqueue({ backoff: { baseMs: 50, maxMs: 10_000 } });
  const runWorker = async () => {
    for (let key = await queue.next(); key !== undefined; key = await queue.next()) {
      try {
        await work(key);
        queue.forget(key);
      } catch (error) {
        onError(error);
        queue.retry(key);
      } finally {
        queue.done(key);
      }
    }
  };
  for (let count = 0; count < WORKERS; count++) void runWorker();
  return {
    /** The work starts later, so that the client is answered first. */
    add: (key: string) => void setImmediate(queue.add, key),
    stop: () => void queue.shutdown(),
  };
}
