import { join } from 'node:path';
import { expect, test } from 'vitest';

import { parseSuiteTag, processSuites, readSuites } from './suites.ts';

const ROOT = join(import.meta.dirname, '..');

test.each(readSuites(ROOT, 'e2e'))('$path has a tag that matches its content', ({ path, source }) => {
  const { plane } = parseSuiteTag(path, source);
  const wantsOwn = /\b(own: true|apiServerFlags:|admissionPlugins:|startSubject\()/.test(source);
  expect(plane).toBe(wantsOwn ? 'own-plane' : 'shared-plane');
});

test('suites that start many processes have their own tag', () => {
  expect(processSuites(ROOT)).toContain('test/integration/docs-run.test.ts');
  for (const { path, source } of readSuites(ROOT, 'integration'))
    expect(source, path).toMatch(/^(?!\/\/ suite:)|^\/\/ suite: processes\n/);
});
