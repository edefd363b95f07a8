import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { marked } from 'marked';
import { expect, test } from 'vitest';

import { customResourceDefinitions } from '../../src/api/crds.ts';
import type { Definition } from './kind.ts';
import { cell, code, table } from './page.ts';

const PAGES = join(import.meta.dirname, '..', '..', 'docs', 'reference');

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

const visible = (html: string): string =>
  html
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll(/&([a-z#0-9]+);/g, (entity, name: string) => ENTITIES[name] ?? entity);

/** What a reader sees in each cell, by row; a renderer that shares no code with ours drops cells without a column. */
function rowsOf(markdown: string): readonly (readonly string[])[] {
  const html = marked.parse(markdown, { async: false });
  return [...html.matchAll(/<tr>(.*?)<\/tr>/gs)]
    .map(([, row = '']) => [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, text = '']) => visible(text)))
    .filter((cells) => cells.length > 0);
}

function valuesOf(key: string, tree: unknown): readonly string[] {
  if (typeof tree !== 'object' || tree === null) return [];
  return Object.entries(tree).flatMap(([name, value]: [string, unknown]) =>
    name === key && typeof value === 'string' ? [value] : valuesOf(key, value),
  );
}

test.each([
  ['^([0-9]+(h|m|s))+$'],
  ['^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'],
  [String.raw`^\*\.[^<>]*\d{1,3}&amp;$`],
  ['<name>_a_*b*~c~'],
])('the table cell %s is shown as it is, in code and in prose', (text) => {
  expect(rowsOf(table(['a', 'b', 'c'], [[code(text), cell(`as \`${text}\` and`), 'c']]))).toEqual([
    [text, `as ${text} and`, 'c'],
  ]);
});

test('prose keeps stars, pipes, backslashes and angle brackets', () => {
  const text = 'a * b*c | d\\* <e> [*] refs.<name> & \\|';
  expect(rowsOf(table(['a', 'b'], [[cell(text), 'x']]))).toEqual([[text, 'x']]);
});

test('the page of each kind shows every regular expression as the schema has it', () => {
  const patterns = customResourceDefinitions().flatMap(({ manifest }) => {
    // Through JSON: drops the internal markers of TypeBox.
    const { spec } = JSON.parse(JSON.stringify(manifest)) as Definition; // made from src/api
    const { properties = {} } = spec.versions[0]?.schema.openAPIV3Schema ?? {};
    const found = [properties.spec, properties.status].flatMap((part) => valuesOf('pattern', part));
    const page = readFileSync(join(PAGES, `${spec.names.kind.toLowerCase()}.md`), 'utf8');
    const shown = rowsOf(page).map(([, type = '']) => type);
    expect(
      found.filter((pattern) => !shown.some((type) => type.includes(`matches ${pattern}`))),
      spec.names.kind,
    ).toEqual([]);
    return found;
  });
  expect(patterns.length).toBeGreaterThan(5);
});

test('no page shows an escape to its readers', () => {
  for (const file of readdirSync(PAGES)) {
    const shown = rowsOf(readFileSync(join(PAGES, file), 'utf8')).flat();
    expect(shown.length, file).toBeGreaterThan(5);
    expect(
      shown.filter((text) => /\\[*|<_]|&(lt|gt|amp);/.test(text)),
      file,
    ).toEqual([]);
  }
});
