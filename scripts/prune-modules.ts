/**
 * Removes the files of a node_modules folder that no running program reads: types, sources, source maps, tests,
 * documents. deploy/Dockerfile runs it: node scripts/prune-modules.ts node_modules. It imports only modules of Node, so
 * it works with and without installed packages.
 */
import { readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** Licences require their text in every distribution. */
const ALWAYS = /^(licen[cs]e|notice|copying|authors|patents)|^package\.json$/i;
/** No program runs TypeScript from node_modules. `.bare` files are libraries for another runtime. */
const NEVER = /\.([cm]?ts|map|md|markdown|flow|tsbuildinfo|bare)$/i;
/** Applies only at the top of a package: deeper folders with these names may contain code. */
const FOLDERS = new Set([
  ...['test', 'tests', '__tests__', 'coverage', 'docs', 'example', 'examples'],
  ...['bench', 'benchmark', 'benchmarks', '.github'],
]);

export function isNeeded(path: string): boolean {
  const parts = path.split(/[/\\]/);
  const name = parts.at(-1) ?? '';
  if (ALWAYS.test(name) && !NEVER.test(name.replace(/\.md$/i, ''))) return true;
  return !NEVER.test(name) && !(parts.length > 1 && FOLDERS.has(parts[0] ?? ''));
}

interface ModuleFile {
  /** `@scope/name`, or `name/node_modules/other`. */
  readonly pack: string;
  readonly path: string;
  readonly bytes: number;
}

function* filesOf(modules: string): Generator<ModuleFile> {
  for (const entry of readdirSync(modules, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const parts = relative(modules, file).split(sep);
    const end = endOfPackage(parts);
    if (end >= parts.length) continue; // metadata of npm, not part of a package
    yield {
      pack: parts.slice(0, end).join('/'),
      path: parts.slice(end).join('/'),
      bytes: statSync(file).size,
    };
  }
}

/** The number of leading parts that name the package. A package of a package is at its top; elsewhere, as in fixtures of tests, is none. */
function endOfPackage(parts: readonly string[], from = 0): number {
  const end = from + (parts[from]?.startsWith('@') === true ? 2 : 1);
  return parts[end] === 'node_modules' ? endOfPackage(parts, end + 1) : end;
}

/** Removes unneeded files, then empty folders. Returns the number of removed bytes. */
export function pruneModules(modules: string): number {
  let removed = 0;
  for (const { pack, path, bytes } of [...filesOf(modules)]) {
    if (isNeeded(path)) continue;
    rmSync(join(modules, pack, path));
    removed += bytes;
  }
  removeEmpty(modules);
  return removed;
}

function removeEmpty(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeEmpty(join(folder, entry.name));
  }
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

if (import.meta.main) {
  const [modules] = process.argv.slice(2);
  if (modules === undefined) throw new Error('usage: node scripts/prune-modules.ts <node_modules>');
  console.log(`removed ${(pruneModules(modules) / 1e6).toFixed(1)} MB that no running program reads`);
}
