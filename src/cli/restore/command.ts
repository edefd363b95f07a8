/** The command line of `gatehouse restore`; what it does is loaded when it is run. */
import type { Command } from 'commander';

import { addClusterFlags, type ClusterFlags } from '../cluster-flags.ts';
import { outputOption, type OutputFormat } from '../terminal/output.ts';
import type { OpenFlags } from './new-window.ts';
import { useCompileCache } from '../terminal/compile-cache.ts';

/** Wrong usage. */
const UNUSABLE = 2;

export interface StatusFlags extends ClusterFlags {
  readonly output: OutputFormat;
  /** For the final report. */
  readonly watch?: boolean;
  /** A duration. */
  readonly timeout: string;
}

export interface WaitFlags {
  readonly wait?: boolean;
  /** A duration. */
  readonly timeout: string;
}

/** What the user asks of `gatehouse restore`. */
export type RestoreCommand =
  | {
      readonly kind: 'open';
      readonly name: string | undefined;
      readonly flags: ClusterFlags & WaitFlags & OpenFlags;
    }
  | { readonly kind: 'close'; readonly name: string; readonly flags: ClusterFlags & WaitFlags }
  | { readonly kind: 'approve'; readonly name: string; readonly flags: ClusterFlags }
  | {
      readonly kind: 'status';
      readonly name: string | undefined;
      readonly flags: StatusFlags;
    };

export function addRestore(program: Command): void {
  const restore = program
    .command('restore')
    .description('open, close and look at RestoreWindows, in which a backup is restored')
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNUSABLE))
    .addHelpText('after', HELP);
  addOpen(restore);
  addClose(restore);
  addStatus(restore);
  addApprove(restore);
}

const HELP = `
Examples:
  gatehouse restore open nightly --user system:serviceaccount:velero:velero  before the restore
  gatehouse restore status nightly --watch                                   while it goes on
  gatehouse restore close nightly --wait                                     after it; waits for the report

Exit code: 0 it is done, 1 it was refused or failed (close --wait, status --watch: or violations are left), 2 wrong usage.`;

function addOpen(restore: Command): void {
  addClusterFlags(restore.command('open [name]'))
    .description('let somebody restore a backup: checks that depend on other objects wait, for them alone')
    .option('--user <name>', 'who restores, e.g. system:serviceaccount:velero:velero; may be repeated', add)
    .option('--group <name>', 'the same, by a group; may be repeated', add)
    .option('--namespace <name>', 'only in this namespace; may be repeated (default: everywhere)', add)
    .option('--operation <operation>', 'which requests; may be repeated (default: CREATE and UPDATE)', add)
    .option('--for <duration>', 'how long at most: 24h and less', '2h')
    .option('--reason <text>', 'why, for those who read the report')
    .option(
      '--require-approval',
      'only list lost owner references until somebody says: gatehouse restore approve',
    )
    .option('--wait', 'wait until it is open (default)')
    .option('--no-wait', 'do not wait')
    .option('--timeout <duration>', 'how long to wait', '30s')
    .action((name: string | undefined, flags: ClusterFlags & WaitFlags & OpenFlags) =>
      run({ kind: 'open', name, flags }),
    );
}

function addClose(restore: Command): void {
  addClusterFlags(restore.command('close <name>'))
    .description('end a window now; what is stored is swept')
    .option('--wait', 'wait for the final report, print it, and end with 1 when violations are left')
    .option('--timeout <duration>', 'how long to wait', '15m')
    .action((name: string, flags: ClusterFlags & WaitFlags) => run({ kind: 'close', name, flags }));
}

function addStatus(restore: Command): void {
  addClusterFlags(restore.command('status [name]'))
    .description('all windows, or what the sweep of one has found and what to do')
    .addOption(outputOption())
    .option(
      '--watch',
      'wait for the final report, with the progress of the sweep on a terminal; 1 when violations are left',
    )
    .option('--timeout <duration>', 'how long to wait', '15m')
    .action((name: string | undefined, flags: StatusFlags) => run({ kind: 'status', name, flags }));
}

function addApprove(restore: Command): void {
  addClusterFlags(restore.command('approve <name>'))
    .description('have the owner references linked that a window with --require-approval only lists')
    .action((name: string, flags: ClusterFlags) => run({ kind: 'approve', name, flags }));
}

const add = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

async function run(command: RestoreCommand): Promise<void> {
  useCompileCache();
  const { restore } = await import('./restore.ts');
  process.exit(await restore(command));
}
