import { Option, type Command } from 'commander';

import { addClusterFlags, outputOption, reportOption, type ClusterFlags } from '../terminal/options.ts';
import type { OpenFlags } from './new-window.ts';
import type { RehearseFlags } from './rehearse/input.ts';
import type * as Restore from './restore.ts';

export function addRestore(program: Command): void {
  const restore = program
    .command('restore')
    .description(
      'rehearse a restore; open, close and inspect RestoreWindows, during which a backup is restored',
    )
    .addHelpText('after', HELP);
  addOpen(restore);
  addClose(restore);
  addStatus(restore);
  addApprove(restore);
  addRehearse(restore);
}

const HELP = `
Examples:
  gatehouse restore rehearse nightly.tar.gz -p policies/                     what a restore would lose, without a cluster
  gatehouse restore open nightly --user system:serviceaccount:velero:velero  before the restore
  gatehouse restore status nightly --watch                                   during the restore
  gatehouse restore close nightly --wait                                     after the restore; waits for the report

Exit code: 0 success, 1 refused or failed (close --wait, status --watch: or violations remain; rehearse: problems found),
2 wrong usage, or unknown because a kind could not be read (rehearse: or nothing was rehearsed).`;

function addOpen(restore: Command): void {
  addClusterFlags(restore.command('open [name]'))
    .description('open a window: checks that depend on other objects are deferred for its principals only')
    .option('--user <name>', 'user that restores, e.g. system:serviceaccount:velero:velero; repeatable', add)
    .option('--group <name>', 'group that restores; repeatable', add)
    .option('-n, --namespace <name>', 'limit the window to this namespace; repeatable (default: all)', add)
    .option('--operation <operation>', 'operation to defer; repeatable (default: CREATE and UPDATE)', add)
    .option('--for <duration>', 'maximum duration of the window, up to 24h', '2h')
    .option('--reason <text>', 'reason for the restore, shown in the report')
    .option(
      '--require-approval',
      'list lost owner references, and link them only after gatehouse restore approve',
    )
    .option('--wait', 'wait until the window is open (default)')
    .option('--no-wait', 'do not wait')
    .option('--timeout <duration>', 'maximum time to wait', '30s')
    .action(async (name: string | undefined, flags: Restore.WaitFlags & OpenFlags) => {
      const { openWindow, explained } = await import('./restore.ts');
      process.exit(await explained('open', 1, () => openWindow(name, flags)));
    });
}

function addClose(restore: Command): void {
  addClusterFlags(restore.command('close <name>'))
    .description('close a window now; Gatehouse then sweeps the existing objects')
    .option('--wait', 'wait for the final report and print it; exit with 1 when violations remain')
    .option('--timeout <duration>', 'maximum time to wait', '15m')
    .action(async (name: string, flags: Restore.WaitFlags) => {
      const { closeWindow, explained } = await import('./restore.ts');
      process.exit(await explained('close', 1, () => closeWindow(name, flags)));
    });
}

function addStatus(restore: Command): void {
  addClusterFlags(restore.command('status [name]'))
    .description('list all windows, or show the findings of one window and what to do')
    .addOption(outputOption())
    .option(
      '--watch',
      'wait for the final report, with progress on a terminal; exit with 1 when violations remain',
    )
    .option('--timeout <duration>', 'maximum time to wait', '15m')
    .action(async (name: string | undefined, flags: Restore.StatusFlags) => {
      const { showStatus, explained } = await import('./restore.ts');
      process.exit(await explained('status', 1, () => showStatus(name, flags)));
    });
}

function addApprove(restore: Command): void {
  addClusterFlags(restore.command('approve <name>'))
    .description('approve the owner references that a window with --require-approval lists')
    .action(async (name: string, flags: ClusterFlags) => {
      const { approveWindow, explained } = await import('./restore.ts');
      process.exit(await explained('approve', 1, () => approveWindow(name, flags)));
    });
}

function addRehearse(restore: Command): void {
  const rehearse = addClusterFlags(restore.command('rehearse [backup]'))
    .description(
      'say what a restore of a Velero backup (archive or folder) or of manifests would lose or break; no cluster needed',
    )
    .option(
      '-p, --policies <paths...>',
      'AdmissionPolicies and RestoreDetectors (default: the ones in the backup)',
    )
    .option(
      '--policies-from-cluster',
      'use the policies, detectors and CRDs of the cluster of the kubeconfig',
    )
    .option(
      '--newest-in <folder>',
      'instead of a backup: the newest one in mounted object storage of Velero, or of archives',
    )
    .option('--from-cluster', 'instead of a backup: what the cluster of the kubeconfig stores now')
    .option(
      '--against <kubeconfig>',
      'compare with this cluster: its kinds, objects and policies, and dry runs; read-only',
    )
    .option(
      '--target-version <version>',
      'Kubernetes version of the target, e.g. 1.34 (default: the version of --against, else the newest)',
    )
    .option('--crds <paths...>', 'CustomResourceDefinitions of the target cluster')
    .option('--existing <paths...>', 'objects of the target cluster (default: it is empty)')
    .option('--restore <paths...>', 'a Restore of Velero and its ConfigMaps, instead of the flags below');
  addSelection(rehearse)
    .option('--velero-namespace <name>', 'namespace of Velero', 'velero')
    .option(
      '--record',
      'keep the result in the cluster, for metrics and alerts: deploy/components/restore-rehearsal',
    )
    .option('--no-window', 'rehearse a restore for which no RestoreWindow opens')
    .addOption(reportOption())
    .action(async (path: string | undefined, flags: RehearseFlags) => {
      const { rehearse: work } = await import('./rehearse/rehearse.ts');
      const { explained } = await import('./restore.ts');
      process.exit(await explained('rehearse', 2, () => work(path, flags)));
    });
}

const addSelection = (command: Command): Command =>
  command
    .option('--include-namespaces <names>', "namespaces to restore, in Velero's syntax (default: all)", list)
    .option('--exclude-namespaces <names>', 'namespaces not to restore', list)
    .option('--include-resources <names>', 'resources to restore, e.g. pods,servers.infra.example.com', list)
    .option('--exclude-resources <names>', 'resources not to restore', list)
    .option(
      '--include-cluster-resources',
      'restore cluster-scoped objects (default: if all namespaces are restored)',
    )
    .option('--no-include-cluster-resources', 'restore no cluster-scoped objects')
    .option('-l, --selector <labels>', 'restore only objects with these labels, e.g. app=shop')
    .option(
      '--or-selector <labels>',
      'restore only objects with one of these labels, e.g. "app=shop or app=mail"',
    )
    .option('--preserve-nodeports', 'keep the node ports of Services')
    .option('--namespace-mappings <pairs>', "from:to, in Velero's syntax", list, [])
    .addOption(
      new Option('--existing-resource-policy <policy>', 'what Velero does with existing objects')
        .choices(['none', 'update'])
        .default('none'),
    );

const list = (value: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  ...value.split(',').filter((one) => one !== ''),
];

const add = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];
