import { InvalidArgumentError, type Command } from 'commander';

import type { SandboxFlags } from './sandbox.ts';

const HELP = `
Examples:
  gatehouse sandbox                           with a guided tour
  gatehouse sandbox --no-tour                 with Gatehouse, without the examples
  gatehouse sandbox --handlers ./handlers     with custom handlers; --watch reloads them after a change
  gatehouse sandbox --status-page             prints the address of the status page, and a token for it

Exit code: 0 stopped by a signal, 1 failure, 2 wrong usage.`;

export function addSandbox(program: Command): void {
  const command = program.command('sandbox');
  command
    .description('try Gatehouse without a cluster: an in-memory Kubernetes API, a replica and a guided tour')
    .option('--port <number>', 'port of the API on loopback; 0 selects a free port', portNumber, 0)
    .option('--handlers <folder>', 'folder with handlers in TypeScript, or a package that exports them')
    .option('--watch', 'reload the handlers when their folder changes')
    .option('--status-page', 'serve the status page, and print its address and a token')
    .option('--quiet', 'print only the path of the kubeconfig')
    .option('--no-tour', 'skip the tour and leave the cluster empty')
    .addHelpText('after', HELP)
    .action(async (flags: SandboxFlags) => {
      if (flags.watch === true && flags.handlers === undefined)
        command.error('error: --watch needs --handlers: it reloads them');
      const stopping = new AbortController();
      const stop = () => stopping.abort();
      for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, stop);
      // The reader of the pipe has closed it.
      process.stdout.on('error', stop);
      const { sandbox } = await import('./sandbox.ts');
      await sandbox(flags, stopping.signal);
    });
}

function portNumber(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new InvalidArgumentError(`"${text}" is not a port (0 to 65535).`);
}
