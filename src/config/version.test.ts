import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { VERSION } from './version.ts';

test('the version is that of the package', () => {
  const file = join(import.meta.dirname, '..', '..', 'package.json');
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ version: VERSION });
});
