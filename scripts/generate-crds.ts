/** Writes deploy/base/crds from src/api. `npm run generate`; a test fails when what is committed is stale. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { renderCrds } from './render-crds.ts';

const folder = join(import.meta.dirname, '..', 'deploy', 'base', 'crds');
mkdirSync(folder, { recursive: true });
for (const { file, text } of renderCrds()) writeFileSync(join(folder, file), text);
