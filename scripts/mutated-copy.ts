/** A copy of the sources in which a script changes the product and runs the tests. */
import { cpSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const FOLDERS = ['src', 'test', 'deploy', 'docs', 'scripts'];
const FILES = ['package.json', 'tsconfig.json', 'vitest.config.ts'];

/** @returns the folder of the copy, which the caller removes */
export function copySources(root: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'gatehouse-mutants-'));
  for (const path of [...FOLDERS, ...FILES]) cpSync(join(root, path), join(copy, path), { recursive: true });
  symlinkSync(resolve(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}
