import { Option, type Command } from 'commander';

import { addClusterFlags, reportOption } from '../terminal/options.ts';
import type { ReviewFlags } from './flags.ts';

export function addReview(program: Command): void {
  const command = program
    .command('review')
    .description('check objects against policies and handlers, from files or in a cluster (--cluster)')
    .option('-p, --policies <paths...>', 'AdmissionPolicies: files, folders or - (standard input)')
    .option('-f, --filename <paths...>', 'objects to review: files, folders or - (standard input)')
    .option('--old <paths...>', 'the current state of the objects; objects in both are reviewed as UPDATE')
    .option('--existing <paths...>', 'other existing objects, to which the reviewed objects may refer')
    .option('--crds <paths...>', 'CustomResourceDefinitions; any other input may contain them too')
    .option('-R, --recursive', 'read folders recursively')
    .option('-n, --namespace <name>', 'namespace of namespaced objects without one (default: default)')
    .option('--user <name>', 'user that writes the objects (default: user)')
    .option('--group <names...>', 'groups of the user, in addition to system:authenticated')
    .addOption(
      new Option(
        '--operation <operation>',
        'operation to review (default: UPDATE with --old, otherwise CREATE)',
      ).choices(['CREATE', 'UPDATE', 'DELETE']),
    )
    .option('--handlers <folder>', 'folder or package with handlers (TypeScript)')
    .option('--suite <paths...>', 'test suites to run: YAML files or folders')
    .option('--allow-handlers', 'run the handlers (code) that suites name')
    .option(
      '--cluster',
      'review the existing objects of a cluster, with its policies or those of -p; read-only',
    );
  addClusterFlags(command)
    .addOption(reportOption())
    .option('--show-patch', 'also print the changes that policies and handlers make')
    .addHelpText('after', HELP)
    .action(async (flags: ReviewFlags) => {
      const { review } = await import('./review.ts');
      // Handlers may have left timers and connections behind.
      process.exit(await review(flags));
    });
}

const HELP = `
Examples:
  gatehouse review -p policies/ --crds crds/               compile policies; check the fields that they name
  gatehouse review -p policies/ -f objects/                review objects against policies, without a cluster
  gatehouse review -p policies/ -f new.yaml --old old.yaml review an update
  gatehouse review --suite tests/ -o junit                 run test suites in a pipeline
  gatehouse review --cluster -p policies/                  review existing objects before you install the policies

Exit code: 0 no denial, 1 denials, failed tests or violations, 2 the review could not be completed.`;
