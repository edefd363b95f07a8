import type { SandboxTls } from '../../src/cli/sandbox/tls.ts';
import { startChild } from './child.ts';
import type { Answer, Question } from './sandbox-server.ts';

export interface ServerProcess {
  readonly port: number;
  /** CPU time so far, in milliseconds. */
  readonly cpuTime: () => Promise<number>;
  /** In bytes. */
  readonly memory: () => Promise<{ readonly rss: number; readonly heap: number }>;
  readonly stop: () => Promise<void>;
}

/** Starts a sandbox in a child process with the Node options of this process: `--cpu-prof` profiles both. */
export async function startServerProcess(tls: SandboxTls, token: string): Promise<ServerProcess> {
  const child = startChild<Question, Answer>('sandbox-server.ts');
  const { cert, key } = tls;
  const { port } = await child.ask({ kind: 'start', tls: { cert, key }, token }, 'started');
  return {
    port,
    cpuTime: async () => (await child.ask({ kind: 'cpu' }, 'cpu')).milliseconds,
    memory: () => child.ask({ kind: 'memory' }, 'memory'),
    stop: child.stop,
  };
}
