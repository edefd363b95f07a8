/** The sandbox in its own process, so that its CPU time can be measured. Forked and controlled by sandbox.ts. */
import { startSandbox } from '../../src/sandbox/sandbox.ts';

export type Question =
  | {
      readonly kind: 'start';
      readonly tls: { readonly cert: string; readonly key: string };
      /** The token of a user with all permissions. */
      readonly token: string;
    }
  | { readonly kind: 'cpu' }
  | { readonly kind: 'memory' };

export type Answer =
  | { readonly kind: 'started'; readonly port: number }
  /** CPU time of this process so far in milliseconds: all threads, user and system mode. */
  | { readonly kind: 'cpu'; readonly milliseconds: number }
  /** In bytes. Node collects garbage first if it runs with `--expose-gc`. */
  | { readonly kind: 'memory'; readonly rss: number; readonly heap: number };

process.on('message', (question: Question) => {
  void answer(question).then((said) => process.send?.(said));
});
process.once('disconnect', () => process.exit());

async function answer(question: Question): Promise<Answer> {
  switch (question.kind) {
    case 'start': {
      const admin = { username: 'admin', uid: 'admin', groups: ['system:masters'] };
      const { port } = await startSandbox({
        tls: question.tls,
        users: new Map([[question.token, admin]]),
        onError: (error) => {
          throw error;
        },
      });
      return { kind: 'started', port };
    }
    case 'cpu': {
      const { user, system } = process.cpuUsage();
      return { kind: 'cpu', milliseconds: (user + system) / 1_000 };
    }
    case 'memory': {
      globalThis.gc?.();
      const { rss, heapUsed } = process.memoryUsage();
      return { kind: 'memory', rss, heap: heapUsed };
    }
  }
}
