/** Preloaded into a replica (`node --expose-gc --import …`): reports its resources after a garbage collection. */
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** The environment variable with the loopback port of the report. Without it, the module does nothing. */
const VARIABLE = 'GATEHOUSE_SOAK_PORT';

export type Holdings = Awaited<ReturnType<typeof holdings>>;

/** The options of a replica that `readHoldings` can query. */
export const withHoldings = (port: number) => ({
  nodeArgs: ['--expose-gc', '--import', import.meta.url],
  env: { [VARIABLE]: String(port) },
});

export async function readHoldings(port: number): Promise<Holdings> {
  const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } });
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as Holdings; // the server below sends it
}

const ROUNDS = 3;

async function holdings() {
  const { gc } = globalThis;
  if (gc === undefined) throw new Error('Node was started without --expose-gc');
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
