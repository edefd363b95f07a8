/** Writes what in deploy/ is generated: the CRDs, install.yaml and the dashboard. `npm run generate`; tests fail when one is stale. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { renderCrdRules, renderCrds } from './render-crds.ts';
import { renderDashboard } from './render-dashboard.ts';
import { renderInstall } from './render-install.ts';

const deploy = join(import.meta.dirname, '..', 'deploy');
const crds = join(deploy, 'base', 'crds');
mkdirSync(crds, { recursive: true });
for (const { file, text } of renderCrds()) writeFileSync(join(crds, file), text);
const rules = join(deploy, 'components', 'crd-rules');
mkdirSync(rules, { recursive: true });
writeFileSync(join(rules, 'kustomization.yaml'), renderCrdRules());
writeFileSync(join(deploy, 'install.yaml'), renderInstall(deploy));
writeFileSync(join(deploy, 'monitoring', 'dashboard.json'), renderDashboard());
