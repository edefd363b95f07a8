/** `npm run generate` writes the generated files. Tests fail when one is stale. */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { createProgram } from '../src/cli/program.ts';
import { toYaml } from '../src/cli/terminal/output.ts';
import { readKustomization } from './kustomization.ts';
import { cliPage } from './reference/cli.ts';
import { kindPage, type Definition } from './reference/kind.ts';
import { messagesPage } from './reference/messages.ts';
import { metricsPage } from './reference/metrics.ts';
import { mistakesPage } from './reference/mistakes.ts';
import { renderChart, type GeneratedFile } from './render-chart.ts';

export const ROOT = join(import.meta.dirname, '..');
const YAML = { lineWidth: 120, aliasDuplicateObjects: false };

/** The manifests without the internal markers of TypeBox. */
const definitions = customResourceDefinitions().map(({ name, manifest }) => ({
  name,
  manifest: JSON.parse(JSON.stringify(manifest)) as Definition, // made from src/api
}));

const renderCrds = (): readonly GeneratedFile[] =>
  definitions.map(({ name, manifest }) => ({
    path: `deploy/base/crds/${name}.yaml`,
    text: `# Generated from src/api by \`npm run generate\`. Do not edit.\n${toYaml(manifest, YAML)}`,
  }));

const INSTALL_HEADER = `# Generated from deploy/overlays/default by \`npm run generate\`. Do not edit.
# All that a cluster needs, for those who do not use kustomize: kubectl apply --server-side -f deploy/install.yaml
`;

function renderInstall(): readonly GeneratedFile[] {
  const objects = readKustomization(join(ROOT, 'deploy', 'overlays', 'default'));
  const text = INSTALL_HEADER + objects.map((object) => toYaml(object, YAML)).join('---\n');
  return [{ path: 'deploy/install.yaml', text }];
}

function renderReference(): readonly GeneratedFile[] {
  const pages = [
    cliPage(createProgram('gatehouse')),
    messagesPage(),
    metricsPage(),
    mistakesPage(),
    ...definitions.map(({ manifest }) => kindPage(manifest)),
  ];
  return pages.map(({ file, title, text }) => ({
    path: `docs/reference/${file}`,
    text: `<!-- Generated from src by \`npm run generate\`. Do not edit. -->\n\n# ${title}\n\n${text}\n`,
  }));
}

/** In this order: the later ones read files that the earlier ones have written. */
export const RENDERERS: readonly (() => readonly GeneratedFile[])[] = [
  renderCrds,
  renderInstall,
  () => renderChart(ROOT),
  renderReference,
];

const FOLDERS = ['deploy/base/crds', 'deploy/chart/gatehouse/templates', 'docs/reference'];

/** The files that say that they are generated, and are not. */
export function staleFiles(): readonly string[] {
  const generated = new Set(RENDERERS.flatMap((render) => render()).map(({ path }) => path));
  return FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.{yaml,md}`, { cwd: ROOT })).filter(
    (path) => !generated.has(path) && /^.*Generated from/.test(readFileSync(join(ROOT, path), 'utf8')),
  );
}

if (import.meta.main) {
  for (const render of RENDERERS)
    for (const { path, text } of render()) {
      mkdirSync(dirname(join(ROOT, path)), { recursive: true });
      writeFileSync(join(ROOT, path), text);
    }
  for (const path of staleFiles()) rmSync(join(ROOT, path));
}
