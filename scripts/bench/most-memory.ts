import { setTimeout as sleep } from 'node:timers/promises';

import type { Replica } from '../../test/support/gatehouse.ts';
import { sampleOf } from './samples.ts';

const LOOK_EVERY_MS = 500;

/** Samples the resident memory of a replica until `stop`, which returns the maximum in bytes. */
export function mostOf(replica: Replica): { readonly stop: () => Promise<number> } {
  const stopping = new AbortController();
  let most = 0;
  const look = async () => {
    most = Math.max(most, sampleOf(await replica.metrics(), 'process_resident_memory_bytes') ?? 0);
  };
  const loop = async () => {
    while (!stopping.signal.aborted) {
      await look().catch(() => undefined); // the next scrape, half a second later, replaces a failed one
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
