import { Option, type Command } from 'commander';

import { docsUrl } from '../../config/version.ts';
import { addClusterFlags, namespaceName, outputOption } from '../terminal/options.ts';
import { COMPAT_SYSTEMS } from '../../pki/injection/request.ts';
import type { DoctorFlags } from './doctor/doctor.ts';
import type { StatusFlags } from './status/status.ts';

const addCommand = (program: Command, name: string): Command =>
  addClusterFlags(program.command(name)).option(
    '-n, --namespace <name>',
    'namespace of Gatehouse',
    namespaceName,
    'gatehouse-system',
  );

export function addDoctor(program: Command): void {
  addCommand(program, 'doctor')
    .description('find common problems of Gatehouse in a cluster; read-only')
    .option(
      '--service-account <name>',
      'ServiceAccount of Gatehouse (default: the accounts of its Deployments)',
    )
    .addOption(outputOption())
    .addHelpText('after', DOCTOR_HELP)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import('./doctor/doctor.ts');
      process.exit(await doctor(flags));
    });
}

const DOCTOR_HELP = `
Examples:
  gatehouse doctor                                   the cluster of the current context
  gatehouse doctor --context production -n webhooks  another cluster, with Gatehouse in the namespace webhooks
  gatehouse doctor -o json | jq '.findings[] | select(.severity == "problem")'

The command uses the permissions of the kubeconfig user. A check without sufficient permissions is "unknown" and names the
missing permission. Every check: ${docsUrl('status.md')}

Exit code: 0 no problem found, 1 problems found, failed checks or no connection to the cluster, 2 wrong usage.`;

export function addStatus(program: Command): void {
  addCommand(program, 'status')
    .description(
      'health of Gatehouse in a cluster: leader, authority, certificates, CA bundles, policies, restore windows',
    )
    .addOption(
      new Option(
        '--compat <systems...>',
        'other systems whose annotations count, in addition to those that the leader honours',
      )
        .choices(COMPAT_SYSTEMS)
        .default([], 'none'),
    )
    .addOption(outputOption())
    .addHelpText('after', STATUS_HELP)
    .action(async (flags: StatusFlags) => {
      const { status } = await import('./status/status.ts');
      process.exit(await status(flags));
    });
}

const STATUS_HELP = `
The command uses the permissions of the kubeconfig user and is read-only. It names the parts that this user cannot read.

Examples:
  gatehouse status                                        the cluster of the current context
  gatehouse status --context prod -o json | jq '.attention[]'
  gatehouse status -o yaml > status.yaml                  save the report
  gatehouse status > status.txt || echo "needs attention" use the exit code in a script

Exit code: 0 everything was read and is healthy; 1 something needs attention or could not be read; 2 wrong usage.`;
