/**
 * Prints the packages in the image and the npm package as CycloneDX: node scripts/sbom.ts. `npm sbom --omit dev` also
 * omits packages that are both production and development dependencies, such as yaml. So npm gets a tree without
 * development dependencies.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { productionEntries, type LockEntry } from './production-packages.ts';

const run = promisify(execFile);

export async function productionSbom(root: string): Promise<string> {
  // npm writes these files.
  const read = (name: string): object => JSON.parse(readFileSync(join(root, name), 'utf8')) as object;
  const { name, ...rest } = read('package.json') as { readonly name: string };
  const manifest = { name, ...rest, devDependencies: {} };
  const lock = read('package-lock.json') as { readonly packages: Readonly<Record<string, LockEntry>> };
  const kept = productionEntries(lock).map(([path, entry]) => [
    path,
    path === '' ? { ...entry, devDependencies: {} } : entry,
  ]);

  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-sbom-'));
  try {
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
    writeFileSync(
      join(folder, 'package-lock.json'),
      JSON.stringify({ ...lock, packages: Object.fromEntries(kept) as object }),
    );
    const args = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--sbom-type', 'application'];
    const { stdout } = await run('npm', args, { cwd: folder, maxBuffer: 32 * 2 ** 20 });
    const sbom = JSON.parse(stdout) as { readonly metadata: { readonly component: object } }; // the format is CycloneDX
    // npm uses the name of the folder, which is temporary.
    const component = { ...sbom.metadata.component, name };
    return `${JSON.stringify({ ...sbom, metadata: { ...sbom.metadata, component } }, undefined, 2)}\n`;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (import.meta.main) process.stdout.write(await productionSbom(join(import.meta.dirname, '..')));
