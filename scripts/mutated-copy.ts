/** A copy of the sources in which a script changes the product and runs the tests. */
import { cpSync, mkdtempSync, readdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const LEFT_OUT = ['.git', 'node_modules'];

/** @returns the folder of the copy, which the caller removes */
export function copySources(root: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'gatehouse-mutants-'));
  const paths = readdirSync(root).filter((path) => !LEFT_OUT.includes(path));
  for (const path of paths) cpSync(join(root, path), join(copy, path), { recursive: true });
  symlinkSync(resolve(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}
