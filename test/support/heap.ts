/** How much memory is in use once everything unreachable is gone. */
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Bytes on the heap and in buffers, after collecting garbage until there is no more to collect. */
export async function bytesInUse(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void; // what the flag puts there
  let least = Infinity;
  for (let round = 0; round < 5; round += 1) {
    await sleep(20); // sockets close and finalizers run between two collections
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    least = Math.min(least, heapUsed + arrayBuffers);
  }
  return least;
}
