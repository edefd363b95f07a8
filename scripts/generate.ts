/** `npm run generate` writes the generated files. Tests fail when one is stale. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { renderChart, staleTemplates } from './render-chart.ts';
import { renderCrds } from './render-crds.ts';
import { renderDashboard } from './render-dashboard.ts';
import { renderInstall } from './render-install.ts';
import { renderReference } from './render-reference.ts';

const deploy = join(import.meta.dirname, '..', 'deploy');
const crds = join(deploy, 'base', 'crds');
mkdirSync(crds, { recursive: true });
for (const { file, text } of renderCrds()) writeFileSync(join(crds, file), text);
writeFileSync(join(deploy, 'install.yaml'), renderInstall(deploy));
writeFileSync(join(deploy, 'monitoring', 'dashboard.json'), renderDashboard());

// After the dashboard, which the chart contains too.
const root = join(deploy, '..');
for (const path of staleTemplates(root)) rmSync(join(root, path));
for (const { path, text } of renderChart(root)) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

const reference = join(root, 'docs', 'reference');
mkdirSync(reference, { recursive: true });
for (const { file, text } of renderReference()) writeFileSync(join(reference, file), text);
