import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { renderCrds } from './render-crds.ts';

const deploy = join(import.meta.dirname, '..', 'deploy');
const folder = join(deploy, 'base', 'crds');

test('the CRDs in deploy/ are up to date with src/api; otherwise run `npm run generate`', () => {
  const committed = readdirSync(folder)
    .filter((file) => file !== 'kustomization.yaml')
    .map((file) => ({ file, text: readFileSync(join(folder, file), 'utf8') }));
  expect(committed).toEqual(renderCrds());
});

test('no list item has a field with a default, so an apply of an unchanged file changes nothing', () => {
  expect(defaultsInLists(customResourceDefinitions(), '')).toEqual([]);
  expect(defaultsInLists({ a: { items: { properties: { b: { default: 1 } } } } }, '')).toEqual([
    '/a/items/properties/b/default',
  ]);
});

function defaultsInLists(value: unknown, path: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const here = `${path}/${key}`;
    if (key === 'default' && path.includes('/items/') && !path.endsWith('/properties')) return [here];
    return defaultsInLists(inner, here);
  });
}
