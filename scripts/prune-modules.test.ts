import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { productionPackages } from './production-packages.ts';
import { isNeeded, pruneModules } from './prune-modules.ts';

const ROOT = join(import.meta.dirname, '..');

test('a pruned folder contains only code and licences, and no empty folders', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-modules-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const files = {
    'a/index.js': 'code',
    'a/index.d.ts': '12345',
    'a/test/it.js': '678',
    'a/test/node_modules/b.js': '1011',
    'a/node_modules/@s/b/docs/x.js': '9',
    'a/node_modules/@s/b/docs/LICENSE': 'licence',
    'a/node_modules/@s/b/lib/docs/x.js': 'code',
    ...Object.fromEntries(
      ['x.js.map', 'README.md', 'prebuilds/x.bare', 'license-check.ts'].map((name) => [`a/${name}`, '']),
    ),
    '.package-lock.json': '{}',
  };
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  expect(pruneModules(folder)).toBe(13);
  const left = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  expect(left.filter((path) => /\.\w+$|E$/.test(path)).toSorted()).toEqual([
    '.package-lock.json',
    'a/index.js',
    'a/node_modules/@s/b/docs/LICENSE',
    'a/node_modules/@s/b/lib/docs/x.js',
  ]);
  expect(left).not.toContain('a/test');
});

/** The files that the `exports` of package.json offer at run time. Entries under `types` are for compilers. */
function offered(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value)
    .filter(([key]) => !key.startsWith('types') && !/^(source|@|typescript)/.test(key))
    .flatMap(([, below]) => offered(below));
}

test('pruning removes no file that a package of the image exports to programs', () => {
  const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const checked = packages.flatMap((pack) => {
    const file = join(ROOT, 'node_modules', pack, 'package.json');
    if (!existsSync(file)) return []; // optional, and for another platform
    const { main, exports } = JSON.parse(readFileSync(file, 'utf8')) as {
      readonly main?: unknown;
      readonly exports?: unknown;
    };
    return [...offered(main), ...offered(exports)]
      .map((path) => path.replace(/^\.\//, ''))
      .filter((path) => existsSync(join(ROOT, 'node_modules', pack, path)))
      .map((path) => ({ pack, path, needed: isNeeded(path) }));
  });
  expect(checked.length).toBeGreaterThan(100);
  expect(checked.filter(({ path, needed }) => !needed && !/\.d\.[cm]?ts$/.test(path))).toEqual([]);
});

test('the Dockerfile copies only existing files that .dockerignore allows, and prunes node_modules', () => {
  const allowed = readFileSync(join(ROOT, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1));
  const dockerfile = readFileSync(join(ROOT, 'deploy', 'Dockerfile'), 'utf8');
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, from = '']) =>
    from.split(' '),
  );
  expect(copied.length).toBeGreaterThanOrEqual(6);
  const covered = (path: string) => allowed.some((one) => path === one || path.startsWith(`${one}/`));
  expect(copied.filter((path) => !covered(path))).toEqual([]);
  expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  expect(dockerfile).toContain('node scripts/prune-modules.ts node_modules');
});
