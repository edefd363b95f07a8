import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { docsUrl, VERSION } from './version.ts';

const ROOT = join(import.meta.dirname, '..', '..');

test('the version and the home page are those of the package', () => {
  const { version, homepage } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    readonly version: string;
    readonly homepage: string;
  }; // our own file
  expect(VERSION).toBe(version);
  expect(docsUrl('status.md')).toBe(homepage.replace('#readme', `/blob/v${version}/docs/status.md`));
});

test('every page that the program links to exists', () => {
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .map((path) => readFileSync(join(ROOT, 'src', path), 'utf8'));
  const pages = sources.flatMap((text) => [...text.matchAll(/docsUrl\('([^'#]+)(?:#([^']+))?'\)/g)]);
  expect(pages.length).toBeGreaterThan(3);
  for (const [, page = '', anchor] of pages) {
    const file = join(ROOT, 'docs', page);
    expect(existsSync(file), page).toBe(true);
    const headings = readFileSync(file, 'utf8').match(/^#+ .*$/gm) ?? [];
    const anchors = headings.map((line) => line.replace(/^#+ /, '').toLowerCase().replaceAll(' ', '-'));
    if (anchor !== undefined) expect(anchors, page).toContain(anchor);
  }
});
