/** docs/reference/threats.md names the test that proves each answer: that test must exist. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const PAGE = readFileSync(join(ROOT, 'docs', 'reference', 'threats.md'), 'utf8');
const named = [...PAGE.matchAll(/`(?<file>[\w/.-]+\.test\.ts)` "(?<name>[^"]+)"/g)].map(({ groups }) => ({
  file: groups?.file ?? '',
  name: groups?.name ?? '',
}));

test('every test that the page names exists', () => {
  const missing = named.filter(({ file, name }) => {
    const path = join(ROOT, file);
    return !existsSync(path) || !readFileSync(path, 'utf8').includes(name);
  });
  expect(missing).toEqual([]);
});

test('every threat has a test', () => {
  const rows = PAGE.split('\n').filter((line) => line.startsWith('| ') && !/^\| (-|threat|asset)/.test(line));
  const threats = rows.filter((line) => line.split(' | ').length === 3 && line.includes('.test.ts'));
  expect(threats.length).toBe(named.length);
  expect(named.length).toBeGreaterThan(25);
});
