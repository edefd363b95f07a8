/** The command line of `gatehouse review`; what it does is loaded when it is run. */
import { Option, type Command } from 'commander';

import type { ReviewFlags } from './flags.ts';
import { useCompileCache } from '../terminal/compile-cache.ts';

/** Wrong usage, as other errors that are none of the objects reviewed. */
const UNUSABLE = 2;

export function addReview(program: Command): void {
  program
    .command('review')
    .description(
      'judge objects by policies and handlers without a cluster, or what is stored in one (--cluster)',
    )
    .option(
      '-p, --policies <paths...>',
      'AdmissionPolicies to judge by: files, folders or - (standard input)',
    )
    .option('-f, --filename <paths...>', 'objects to review: files, folders or - (standard input)')
    .option('--old <paths...>', 'the same objects as they are now: what is in both is an UPDATE')
    .option('--existing <paths...>', 'other objects that exist, which those reviewed may refer to')
    .option('--crds <paths...>', 'CustomResourceDefinitions; they may stand in any other file too')
    .option('-R, --recursive', 'read folders with all that is below them')
    .option('-n, --namespace <name>', 'for objects of namespaces that name none (default: default)')
    .option('--user <name>', 'who writes the objects (default: somebody)')
    .option('--group <names...>', 'groups of that user, beside system:authenticated')
    .addOption(
      new Option(
        '--operation <operation>',
        'what is done with the objects (default: UPDATE with --old, else CREATE)',
      ).choices(['CREATE', 'UPDATE', 'DELETE']),
    )
    .option('--handlers <folder>', 'folder or package with handlers (TypeScript) to judge by')
    .option('--suite <paths...>', 'test suites to run: YAML files or folders')
    .option(
      '--cluster',
      'judge what is stored in a cluster, by its policies or by those given with -p; nothing is written',
    )
    .option('--kubeconfig <file>', 'kubeconfig file for --cluster')
    .option('--context <name>', 'context of the kubeconfig')
    .addOption(
      new Option('-o, --output <format>', 'how to print the result')
        .choices(['table', 'json', 'junit'])
        .default('table'),
    )
    .option('--show-patch', 'also print what policies and handlers change')
    .addHelpText('after', HELP)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNUSABLE))
    .action(async (flags: ReviewFlags) => {
      useCompileCache();
      const { review } = await import('./review.ts');
      // Handlers may have left timers and connections behind.
      process.exit(await review(flags));
    });
}

const HELP = `
Examples:
  gatehouse review -p policies/ -f objects/                objects by policies, without a cluster
  gatehouse review -p policies/ -f new.yaml --old old.yaml an update
  gatehouse review --suite tests/ -o junit                 tests of policies, for pipelines
  gatehouse review --cluster -p policies/                  what is stored, by policies that are not installed yet

Exit code: 0 nothing is denied, 1 something is (or a test failed, or a stored object violates a policy), 2 it could not be judged.`;
