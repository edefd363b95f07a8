/** The command line of `gatehouse status`. */
import { Option, type Command } from 'commander';

import { addClusterFlags, namespaceName, outputOption } from '../../terminal/options.ts';
import type { StatusFlags } from './status.ts';

export function addStatus(program: Command): void {
  addClusterFlags(program.command('status'))
    .description(
      'health of Gatehouse in a cluster: leader, authority, certificates, CA bundles, policies, restore windows',
    )
    .option('-n, --namespace <name>', 'namespace of Gatehouse', namespaceName, 'gatehouse-system')
    .addOption(
      new Option(
        '--compat <systems...>',
        'other systems whose annotations Gatehouse honours, as in gatehouse serve',
      )
        .choices(['openshift', 'cert-manager'])
        .default([], 'none'),
    )
    .addOption(outputOption())
    .allowExcessArguments(false)
    .addHelpText('after', HELP)
    .action(async (flags: StatusFlags) => {
      const { status } = await import('./status.ts');
      process.exit(await status(flags));
    });
}

const HELP = `
The command uses the permissions of the kubeconfig user and is read-only. It names the parts that this user cannot read.

Examples:
  gatehouse status                                        the cluster of the current context
  gatehouse status --context prod -o json | jq '.attention[]'
  gatehouse status -o yaml > status.yaml                  save the report
  gatehouse status > status.txt || echo "needs attention" use the exit code in a script

Exit code: 0 everything was read and is healthy; 1 something needs attention or could not be read; 2 wrong usage.`;
