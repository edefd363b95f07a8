import { join } from 'node:path';

import { readKustomization } from './kustomization.ts';
import { toYaml } from '../src/cli/terminal/output.ts';

const HEADER = `# Generated from deploy/overlays/default by \`npm run generate\`. Do not edit.
# All that a cluster needs, for those who do not use kustomize: kubectl apply --server-side -f deploy/install.yaml
`;

export function renderInstall(deploy: string): string {
  const objects = readKustomization(join(deploy, 'overlays', 'default'));
  return (
    HEADER + objects.map((o) => toYaml(o, { lineWidth: 120, aliasDuplicateObjects: false })).join('---\n')
  );
}
