/** Options that several commands share. */
import { Option, type Command } from 'commander';

/** Selects the cluster and the user, as in kubectl. */
export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
}

export function addClusterFlags(command: Command): Command {
  return command
    .option('--kubeconfig <file>', 'kubeconfig file (default: the same as kubectl)')
    .option('--context <name>', 'context of the kubeconfig');
}

export type OutputFormat = 'table' | 'json' | 'yaml';

export const outputOption = (): Option =>
  new Option('-o, --output <format>', 'output format').choices(['table', 'json', 'yaml']).default('table');
