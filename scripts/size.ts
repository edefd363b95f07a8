/** Prints the size of the files in the image without building it: npm run size. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { productionPackages } from './production-packages.ts';
import { filesOf, isNeeded } from './prune-modules.ts';

const ROOT = join(import.meta.dirname, '..');
const LARGEST = 10;

interface Share {
  readonly name: string;
  readonly installed: number;
  readonly kept: number;
}

function modules(): readonly Share[] {
  const production = new Set(productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')));
  const shares = new Map<string, Share>();
  for (const { pack, path, bytes } of filesOf(join(ROOT, 'node_modules'))) {
    if (!production.has(pack)) continue;
    const { installed, kept } = shares.get(pack) ?? { installed: 0, kept: 0 };
    const share = { name: pack, installed: installed + bytes, kept: kept + (isNeeded(path) ? bytes : 0) };
    shares.set(pack, share);
  }
  return [...shares.values()].toSorted((a, b) => b.kept - a.kept);
}

function folder(path: string): number {
  if (!existsSync(join(ROOT, path))) throw new Error(`${path}/ is missing: run npm run build`);
  return readdirSync(join(ROOT, path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

const sum = (shares: readonly Share[], of: 'installed' | 'kept') =>
  shares.reduce((total, share) => total + share[of], 0);
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(2)} MB`.padStart(10);
const row = (name: string, bytes: number, note = ''): void => {
  console.log(`${name.padEnd(44)}${megabytes(bytes)}${note === '' ? '' : `   ${note}`}`);
};

const packages = modules();
const kept = sum(packages, 'kept');
const dist = folder('dist');
const base = folder('deploy/base');
row('dist', dist);
row(
  `node_modules, ${packages.length} packages`,
  kept,
  `of ${megabytes(sum(packages, 'installed')).trim()} installed`,
);
for (const share of packages.slice(0, LARGEST))
  row(`  ${share.name}`, share.kept, `of ${megabytes(share.installed).trim()}`);
row(`  ${packages.length - LARGEST} others`, sum(packages.slice(LARGEST), 'kept'));
row('deploy/base', base);
row('all of ours', dist + kept + base, 'the base image, with Node, comes on top');
