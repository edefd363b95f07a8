import { InvalidArgumentError, Option, type Command } from 'commander';

import { addClusterFlags, namespaceName } from '../terminal/options.ts';
import type { RefsFlags } from './refs.ts';

export function addRefs(program: Command): void {
  const command = program
    .command('refs')
    .description('show what an object refers to, and what refers to it')
    .argument(
      '<object>',
      'the object as <kind>/<name>: Server/web, servers/web, servers.infra.example.com/web',
    )
    .option('-n, --namespace <name>', 'namespace of the object (default: default)', namespaceName)
    .option(
      '-f, --filename <paths...>',
      'read objects and policies from files or folders, not from a cluster',
    )
    .option('-p, --policies <paths...>', 'AdmissionPolicies: files, folders or - (standard input)')
    .option('-R, --recursive', 'read folders recursively')
    .addOption(new Option('--depth <levels>', 'how far to follow references').argParser(levels).default(3));
  addClusterFlags(command)
    .addOption(
      new Option('-o, --output <format>', 'output format; dot is for Graphviz')
        .choices(['tree', 'json', 'dot'])
        .default('tree'),
    )
    .addHelpText('after', HELP)
    .action(async (object: string, flags: RefsFlags) => {
      const { refs } = await import('./refs.ts');
      process.exitCode = await refs(object, flags);
    });
}

const MOST_LEVELS = 100;

function levels(text: string): number {
  const depth = Number(text);
  if (Number.isInteger(depth) && 1 <= depth && depth <= MOST_LEVELS) return depth;
  throw new InvalidArgumentError(`It must be a number from 1 to ${MOST_LEVELS}.`);
}

const HELP = `
It reads the kinds that AdmissionPolicies connect with references, and follows owner references between them.

Examples:
  gatehouse refs Zone/east                              in the cluster of the kubeconfig
  gatehouse refs servers/web -n shop -o dot | dot -Tsvg   as a picture
  gatehouse refs Server/web -f manifests/ -p policies/  without a cluster

Exit code: 0 the object exists, 1 it does not, 2 it could not be read.`;
