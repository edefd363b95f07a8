import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { renderCrds } from './render-crds.ts';

const folder = join(import.meta.dirname, '..', 'deploy', 'base', 'crds');

test('the CRDs in deploy/ are those of src/api; `npm run generate` makes them so', () => {
  const committed = readdirSync(folder)
    .filter((file) => file !== 'kustomization.yaml')
    .map((file) => ({ file, text: readFileSync(join(folder, file), 'utf8') }));
  expect(committed).toEqual(renderCrds());
});
