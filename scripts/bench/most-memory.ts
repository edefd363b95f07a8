import { setTimeout as sleep } from 'node:timers/promises';

import type { Replica } from '../../test/support/gatehouse.ts';
import { sampleOf } from './samples.ts';

const LOOK_EVERY_MS = 500;

/** The most that a replica has resident from now until it is stopped, in bytes. */
export function mostOf(replica: Replica): { readonly stop: () => Promise<number> } {
  const stopping = new AbortController();
  let most = 0;
  const look = async () => {
    most = Math.max(most, sampleOf(await replica.metrics(), 'process_resident_memory_bytes') ?? 0);
  };
  const loop = async () => {
    while (!stopping.signal.aborted) {
      await look().catch(() => undefined); // a scrape that fails now succeeds half a second later
      await sleep(LOOK_EVERY_MS);
    }
  };
  const running = loop();
  return {
    stop: async () => {
      stopping.abort();
      await running;
      await look();
      return most;
    },
  };
}
