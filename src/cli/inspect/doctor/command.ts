/** The command line of `gatehouse doctor`; what it does is loaded when it is run. */
import type { Command } from 'commander';

import { addClusterFlags, type ClusterFlags } from '../../cluster-flags.ts';
import { outputOption, type OutputFormat } from '../../terminal/output.ts';
import { useCompileCache } from '../../terminal/compile-cache.ts';

/** Wrong usage. */
const UNUSABLE = 2;

export interface DoctorFlags extends ClusterFlags {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly output: OutputFormat;
}

export function addDoctor(program: Command): void {
  addClusterFlags(program.command('doctor'))
    .description('look for what commonly breaks in a cluster with Gatehouse; nothing is written')
    .option('-n, --namespace <name>', 'namespace in which Gatehouse runs', 'gatehouse-system')
    .option('--service-account <name>', 'ServiceAccount as which it runs', 'gatehouse')
    .addOption(outputOption())
    .addHelpText('after', HELP)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNUSABLE))
    .action(async (flags: DoctorFlags) => {
      useCompileCache();
      const { doctor } = await import('./doctor.ts');
      process.exit(await doctor(flags));
    });
}

const HELP = `
Examples:
  gatehouse doctor                                   the cluster of the current context
  gatehouse doctor --context production -n webhooks  another one, where Gatehouse is installed elsewhere
  gatehouse doctor -o json | jq '.findings[] | select(.severity == "problem")'

It asks as the user of the kubeconfig. A check that this user may not make is "unknown", and says which permission it needs.
docs/doctor.md explains every check.

Exit code: 0 no problem was found, 1 there are problems (or the cluster does not answer), 2 wrong usage.`;
