/** Temporary folders of tests. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';

const remove = (path: string) => rmSync(path, { recursive: true, force: true });

/** A folder of this test file. */
export function fileFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `gatehouse-${name}-`));
  afterAll(() => remove(folder));
  return folder;
}

/** A folder of this test file, which is empty at the beginning of each test. */
export function testFolder(name: string): string {
  const folder = fileFolder(name);
  afterEach(() => readdirSync(folder).forEach((entry) => remove(join(folder, entry))));
  return folder;
}
