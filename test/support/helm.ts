/** What Helm makes of our chart. */
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { jsonOfYaml, parseYamlDocuments } from '../../src/cli/review/yaml.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { runTool } from './go-programs.ts';

export const CHART = join(import.meta.dirname, '..', '..', 'deploy', 'chart', 'gatehouse');

const NAMESPACE = 'gatehouse-system';

export interface ChartOptions {
  readonly namespace?: string;
  readonly values?: object;
  readonly files?: readonly string[];
}

export interface RenderOptions extends ChartOptions {
  readonly kubeVersion?: string;
  readonly apiVersions?: readonly string[];
}

/** @throws Error with Helm's message if it cannot render the chart with these values */
export async function renderChart(options: RenderOptions = {}): Promise<readonly KubeObject[]> {
  const { kubeVersion, apiVersions = [] } = options;
  const flags = apiVersions.flatMap((version) => ['--api-versions', version]);
  if (kubeVersion !== undefined) flags.push('--kube-version', kubeVersion);
  return parseYamlDocuments(await helm(['template', 'gatehouse', CHART, ...flags], options))
    .documents.map(({ node, problems }) => {
      if (problems[0] !== undefined) throw new Error(problems[0].message);
      return jsonOfYaml(node.toJS()) as KubeObject | null; // the output of a template; a file may contain only a comment
    })
    .filter((object) => object !== null);
}

/** The notes that Helm prints. @param kubeconfig of the cluster that Helm asks; undefined: it serves built-in kinds */
export async function chartNotes(options: ChartOptions = {}, kubeconfig?: string): Promise<string> {
  const flags =
    kubeconfig === undefined
      ? ['--dry-run=client']
      : ['--dry-run=server', '--take-ownership', '--kubeconfig', kubeconfig];
  const printed = await helm(['install', 'gatehouse', CHART, ...flags], options);
  return printed.slice(printed.lastIndexOf('\nNOTES:\n'));
}

/** Changes the release `gatehouse`: `change` has Helm's words. @throws Error with Helm's message */
export async function changeRelease(
  change: readonly string[],
  kubeconfig: string,
  options: ChartOptions = {},
): Promise<string> {
  const [command = '', ...more] = change;
  const takesChart = command === 'install' || command === 'upgrade';
  const words = [command, 'gatehouse', ...(takesChart ? [CHART] : []), ...more, '--kubeconfig', kubeconfig];
  return await (takesChart ? helm(words, options) : runTool('helm', [...words, '--namespace', NAMESPACE]));
}

export async function lintChart(options: ChartOptions = {}): Promise<void> {
  await helm(['lint', '--strict', CHART], options);
}

async function helm(args: readonly string[], options: ChartOptions): Promise<string> {
  const { namespace = NAMESPACE, values = {}, files = [] } = options;
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-values-'));
  const own = join(folder.path, 'values.json');
  writeFileSync(own, JSON.stringify(values)); // JSON is YAML
  const flags = [...files, own].flatMap((file) => ['--values', file]);
  return await runTool('helm', [...args, '--namespace', namespace, ...flags]);
}
