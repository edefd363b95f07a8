import { InvalidArgumentError, Option, type Command } from 'commander';

import { isDnsLabel } from '../../json/kube-object.ts';

export interface ClusterFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
}

export function addClusterFlags(command: Command): Command {
  return command
    .option('--kubeconfig <file>', 'kubeconfig file (default: the same as kubectl)')
    .option('--context <name>', 'context of the kubeconfig');
}

export function namespaceName(text: string): string {
  if (isDnsLabel(text)) return text;
  throw new InvalidArgumentError(`"${text}" is not a valid name of a namespace.`);
}

export type OutputFormat = 'table' | 'json' | 'yaml';
export type ReportFormat = 'table' | 'json' | 'junit';

export const outputOption = (): Option => formatOption(['table', 'json', 'yaml']);
export const reportOption = (): Option => formatOption(['table', 'json', 'junit']);

const formatOption = (formats: readonly string[]): Option =>
  new Option('-o, --output <format>', 'output format').choices(formats).default('table');
