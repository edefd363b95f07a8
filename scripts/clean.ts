/** Removes the folders that the command line names. Rejects paths outside of the project. */
import { rmSync } from 'node:fs';
import { join, relative } from 'node:path';

const root = join(import.meta.dirname, '..');
for (const name of process.argv.slice(2)) {
  const folder = join(root, name);
  if (relative(root, folder).startsWith('..')) throw new Error(`${name} is outside the project`);
  rmSync(folder, { recursive: true, force: true });
}
