/** Temporary folders of tests. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';

/** A folder of this test file, which is empty at the beginning of each test. */
export function testFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `gatehouse-${name}-`));
  const remove = (path: string) => rmSync(path, { recursive: true, force: true });
  afterEach(() => readdirSync(folder).forEach((entry) => remove(join(folder, entry))));
  afterAll(() => remove(folder));
  return folder;
}
