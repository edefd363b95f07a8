/** The command line of `gatehouse doctor`. */
import type { Command } from 'commander';

import { addClusterFlags, namespaceName, outputOption } from '../../terminal/options.ts';
import type { DoctorFlags } from './doctor.ts';

export function addDoctor(program: Command): void {
  addClusterFlags(program.command('doctor'))
    .description('find common problems of Gatehouse in a cluster; read-only')
    .option('-n, --namespace <name>', 'namespace of Gatehouse', namespaceName, 'gatehouse-system')
    .option('--service-account <name>', 'ServiceAccount of Gatehouse; by default, those of its Deployments')
    .addOption(outputOption())
    .addHelpText('after', HELP)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import('./doctor.ts');
      process.exit(await doctor(flags));
    });
}

const HELP = `
Examples:
  gatehouse doctor                                   the cluster of the current context
  gatehouse doctor --context production -n webhooks  another cluster, with Gatehouse in the namespace webhooks
  gatehouse doctor -o json | jq '.findings[] | select(.severity == "problem")'

The command uses the permissions of the kubeconfig user. A check without sufficient permissions is "unknown" and names the
missing permission. docs/doctor.md explains every check.

Exit code: 0 no problem found, 1 problems found, checks that could not be made or no connection to the cluster, 2 wrong usage.`;
