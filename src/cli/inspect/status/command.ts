/** The command line of `gatehouse status`; what it does is loaded when it is run. */
import { InvalidArgumentError, Option, type Command } from 'commander';

import type { Compat } from '../../../pki/injection/request.ts';
import { addClusterFlags, type ClusterFlags } from '../../cluster-flags.ts';
import { outputOption, type OutputFormat } from '../../terminal/output.ts';
import { useCompileCache } from '../../terminal/compile-cache.ts';

/** Wrong usage. */
const UNUSABLE = 2;

export interface StatusFlags extends ClusterFlags {
  readonly namespace: string;
  readonly compat: readonly Compat[];
  readonly output: OutputFormat;
}

export function addStatus(program: Command): void {
  addClusterFlags(program.command('status'))
    .description(
      'how Gatehouse stands in a cluster: leader, authority, certificates, CA bundles, policies, restore windows',
    )
    .option('--namespace <name>', 'namespace in which Gatehouse runs', namespaceName, 'gatehouse-system')
    .addOption(
      new Option(
        '--compat <systems...>',
        'whose annotations Gatehouse honours too, as told to gatehouse serve',
      )
        .choices(['openshift', 'cert-manager'])
        .default([], 'none'),
    )
    .addOption(outputOption())
    .allowExcessArguments(false)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNUSABLE))
    .addHelpText('after', HELP)
    .action(run);
}

/** As the API server checks names of namespaces (RFC 1123). */
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

function namespaceName(text: string): string {
  if (LABEL.test(text)) return text;
  throw new InvalidArgumentError(`"${text}" cannot be the name of a namespace.`);
}

const HELP = `
It reads as the user of the kubeconfig and writes nothing. What that user may not read is named in its place.

Examples:
  gatehouse status                                   the cluster of the current context
  gatehouse status --context prod -o json | jq '.attention[]'
  gatehouse status -o yaml > status.yaml             as a note for later
  gatehouse status > status.txt || echo "see to it"  in a script

Exit code: 0 everything was read and is fine; 1 something needs attention, or could not be read; 2 wrong usage.`;

async function run(flags: StatusFlags): Promise<void> {
  useCompileCache();
  const { status } = await import('./status.ts');
  process.exit(await status(flags));
}
