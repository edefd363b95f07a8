/** Which cluster a command is about, and as whom: as kubectl has it unless the flags say otherwise. */
import type { Command } from 'commander';

export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
}

export function addClusterFlags(command: Command): Command {
  return command
    .option('--kubeconfig <file>', 'kubeconfig file (default: as kubectl has it)')
    .option('--context <name>', 'context of the kubeconfig');
}
