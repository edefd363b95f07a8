import { join } from 'node:path';
import { expect, test } from 'vitest';

import { parseSuiteTag, processSuites, readSuites } from './suites.ts';

const ROOT = join(import.meta.dirname, '..');

test.each([
  [
    '// suite: shared-plane, sandbox: yes\n',
    { plane: 'shared-plane', sandbox: 'yes', isSlow: false, isNightly: false },
  ],
  [
    '// suite: own-plane, sandbox: long, slow\n',
    { plane: 'own-plane', sandbox: 'long', isSlow: true, isNightly: false },
  ],
  [
    '// suite: shared-plane, sandbox: no (it has no etcd), nightly\n',
    { plane: 'shared-plane', sandbox: 'no', isSlow: false, isNightly: true },
  ],
])('%s is a tag', (source, tag) => {
  expect(parseSuiteTag('a.test.ts', source)).toEqual(tag);
});

test.each([
  ['no tag', "import { test } from 'vitest';\n"],
  ['a tag that is not on the first line', '\n// suite: shared-plane, sandbox: yes\n'],
  ['an unknown plane', '// suite: faults, sandbox: yes\n'],
  ['an unknown word', '// suite: shared-plane, sandbox: often\n'],
  ['no reason for the exclusion of the sandbox', '// suite: shared-plane, sandbox: no\n'],
  ['no word about the sandbox', '// suite: shared-plane\n'],
])('a file with %s is refused', (_what, source) => {
  expect(() => parseSuiteTag('a.test.ts', source)).toThrow('a.test.ts: the first line must be a tag');
});

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
