/** Preloaded into a replica (`node --expose-gc --import …`): tells its parent what it holds once everything unreachable is gone. */
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** The port on loopback where it says so. Without this variable the module does nothing. */
const VARIABLE = 'GATEHOUSE_SOAK_PORT';

export interface Holdings {
  /** Bytes on the heap after collecting garbage. */
  readonly heap: number;
  /** Bytes of buffers outside of it. */
  readonly buffers: number;
  /** Bytes of memory that the system has given it. */
  readonly resident: number;
  readonly fileDescriptors: number;
  /** Timers that are armed. */
  readonly timers: number;
}

/** What a replica has to be started with to be asked by `readHoldings`. */
export const withHoldings = (port: number) => ({
  nodeArgs: ['--expose-gc', '--import', import.meta.url],
  env: { [VARIABLE]: String(port) },
});

export async function readHoldings(port: number): Promise<Holdings> {
  const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as Holdings; // from the server below
}

/** Finalizers run between two collections. */
const ROUNDS = 3;

async function holdings(): Promise<Holdings> {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error('it was started without --expose-gc');
  for (let round = 0; round < ROUNDS; round += 1) {
    gc();
    await sleep(20);
  }
  const { heapUsed, arrayBuffers, rss } = process.memoryUsage();
  return {
    heap: heapUsed,
    buffers: arrayBuffers,
    resident: rss,
    fileDescriptors: readdirSync('/proc/self/fd').length,
    timers: process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length,
  };
}

function listen(port: number): void {
  const server = createServer((_request, response) => {
    holdings().then(
      (held) => response.end(JSON.stringify(held)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(port, '127.0.0.1');
  server.unref();
}

const wanted = process.env[VARIABLE];
if (wanted !== undefined) listen(Number(wanted));
