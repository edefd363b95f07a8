import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { SandboxTls } from '../../src/commands/sandbox/tls.ts';
import type { Answer, Question } from './sandbox-server.ts';

export interface ServerProcess {
  readonly port: number;
  /** Milliseconds of CPU time so far. */
  readonly cpuTime: () => Promise<number>;
  /** In bytes. */
  readonly memory: () => Promise<{ readonly rss: number; readonly heap: number }>;
  readonly stop: () => Promise<void>;
}

/** A sandbox in a child process, which is started with the same options of node: `--cpu-prof` profiles both. */
export async function startServerProcess(tls: SandboxTls, token: string): Promise<ServerProcess> {
  const child = fork(join(import.meta.dirname, 'sandbox-server.ts'));
  const exited = once(child, 'exit');
  const failed = exited.then(() => Promise.reject(new Error('the sandbox ended')));
  failed.catch(() => undefined); // it does end, and then nobody may be waiting

  // One question at a time, so that the next message is its answer.
  const ask = async <Kind extends Answer['kind']>(
    question: Question,
    kind: Kind,
  ): Promise<Extract<Answer, { kind: Kind }>> => {
    const answered = once(child, 'message');
    child.send(question);
    const [answer] = (await Promise.race([answered, failed])) as [Answer]; // sandbox-server.ts sends nothing else
    if (answer.kind !== kind) throw new Error(`asked for ${kind}, and told of ${answer.kind}`);
    return answer as Extract<Answer, { kind: Kind }>; // just checked
  };

  const { cert, key } = tls;
  const { port } = await ask({ kind: 'start', tls: { cert, key }, token }, 'started');
  return {
    port,
    cpuTime: async () => (await ask({ kind: 'cpu' }, 'cpu')).milliseconds,
    memory: () => ask({ kind: 'memory' }, 'memory'),
    stop: async () => {
      child.disconnect();
      await exited;
    },
  };
}
