/** The packages that `npm ci` installs: few, with reasons, pinned by content, without install scripts. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, matchesGlob } from 'node:path';
import { expect, test } from 'vitest';

import { readRecording } from '../test/conformance/recording.ts';
import { NEWEST_RELEASE } from '../test/support/go-programs.ts';
import { CONTAINER_HEAP } from './bench/child.ts';
import { productionEntries } from './production-packages.ts';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

interface Manifest {
  readonly allowScripts: Readonly<Record<string, boolean>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

interface LockEntry {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  readonly link?: boolean;
  readonly dev?: boolean;
}

const manifest = JSON.parse(read('package.json')) as Manifest; // npm writes these files
const lock = JSON.parse(read('package-lock.json')) as {
  readonly packages: Readonly<Record<string, LockEntry>>;
};
const installed = Object.entries(lock.packages).filter(([path]) => path !== '');

/** More packages need a reason and a change of this limit. */
const MOST_PRODUCTION_PACKAGES = 145;

test('only `node` has an install script, and package.json allows it', () => {
  const scripted = installed.filter(([, { hasInstallScript = false }]) => hasInstallScript);
  expect(scripted.map(([path]) => path)).toEqual(['node_modules/node']);
  expect(manifest.allowScripts).toEqual({ node: true });
  expect(lock.packages['node_modules/node']?.dev).toBe(true);
});

test('every package is pinned by a SHA-512, and comes from a registry', () => {
  const loose = installed.filter(
    ([, { version, integrity = '', resolved = 'https://registry.npmjs.org/', link = false }]) =>
      version === undefined ||
      link ||
      !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity) ||
      !resolved.startsWith('https://registry.npmjs.org/'),
  );
  expect(loose.map(([path]) => path)).toEqual([]);
});

test('no range selects a tag, a repository, a folder or any version', () => {
  const ranges = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
  expect(ranges.filter(([, range]) => !/^(\^?\d+\.\d+\.\d+|\d+\.\d+\.\d+-alpha\.\d+)$/.test(range))).toEqual(
    [],
  );
});

test('docs/development/dependencies.md gives a reason for exactly the direct dependencies', () => {
  const [production = '', development = ''] = read('docs/development/dependencies.md').split(
    '\n## For development\n',
  );
  const named = new Set(
    production
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)),
  );
  expect([...named].toSorted()).toEqual(Object.keys(manifest.dependencies).toSorted());

  const missing = Object.keys(manifest.devDependencies).filter(
    (name) => !development.includes(`\`${name}\``),
  );
  expect(missing).toEqual([]);
});

test('the image contains few packages', () => {
  const packages = productionEntries(lock).filter(([path]) => path !== '');
  expect(packages.length).toBeLessThanOrEqual(MOST_PRODUCTION_PACKAGES);
});

test('no script runs when packages are installed for CI, the image or a release', () => {
  const files = [
    'deploy/Dockerfile',
    '.ci/run',
    '.github/workflows/nightly.yml',
    '.github/workflows/release.yml',
  ];
  const all = files.flatMap((file) =>
    [...read(file).matchAll(/npm (?:ci|prune|pack|publish)\b[^\n\\]*/g)].map(([line]) => line),
  );
  expect(all.length).toBeGreaterThanOrEqual(7);
  expect(all.filter((line) => !line.includes('--ignore-scripts'))).toEqual([]);
});

const IMAGE = /^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/;

test('every image that builds, tests or carries Gatehouse is pinned by a digest', () => {
  const workflows = readdirSync(join(ROOT, '.github', 'workflows')).map((name) =>
    read(`.github/workflows/${name}`),
  );
  const images = [
    ...read('deploy/Dockerfile').matchAll(/^FROM (?:--platform=\S+ )?(\S+)/gm),
    ...workflows.flatMap((text) => [
      ...text.matchAll(/^\s+(?:container|image|BUILDKIT|SBOM_SCANNER): (\S+)$/gm),
    ]),
  ].map(([, image = '']) => image);
  expect(images.length).toBeGreaterThanOrEqual(6);
  expect(images.filter((image) => !IMAGE.test(image))).toEqual([]);
});

interface Renovate {
  readonly ignorePaths: readonly string[];
  readonly packageRules: readonly {
    readonly matchFileNames?: readonly string[];
    readonly matchPackageNames?: readonly string[];
    readonly groupName?: string;
  }[];
}

const isModule = (name: string): boolean => existsSync(join(ROOT, 'test', 'go', name, 'go.mod'));
const goModules = readdirSync(join(ROOT, 'test', 'go'))
  .filter(isModule)
  .map((name) => {
    const text = read(`test/go/${name}/go.mod`);
    // A replacement is what is built.
    const pinned = [
      ...text.matchAll(/^\s(?:\S+ => )?(k8s\.io\/\S+) v[01]\.(\d+\.\d+)(?: \/\/ indirect)?$/gm),
    ];
    const releases = pinned.filter(
      ([line, name]) => line.includes('=>') || !text.includes(`\t${name ?? ''} => `),
    );
    return { name, kubernetes: new Set(releases.map(([, , release]) => release)) };
  });

test('Renovate updates every Go module of the tests, and keeps the oldest Kubernetes', () => {
  const { ignorePaths, packageRules } = JSON.parse(read('.github/renovate.json')) as Renovate;
  const files = goModules.map(({ name }) => `test/go/${name}/go.mod`);
  // `config:recommended` ignores all folders named test.
  expect(ignorePaths.length).toBeGreaterThan(0);
  expect(files.filter((file) => ignorePaths.some((path) => matchesGlob(file, path)))).toEqual([]);
  expect(packageRules.flatMap(({ matchFileNames = [] }) => matchFileNames)).toEqual([
    'test/go/kubernetes-oldest/go.mod',
    'test/go/velero/go.mod',
  ]);
  expect(
    packageRules.flatMap(({ matchPackageNames = [], groupName }) =>
      groupName === undefined ? [] : matchPackageNames,
    ),
  ).toEqual(['k8s.io/**']);
});

test('each Go module of the tests has one release of Kubernetes: the newest, the oldest, or that of Velero', () => {
  const releases = Object.fromEntries(
    goModules.map(({ name, kubernetes }) => [name, [...kubernetes].join()]),
  );
  const { 'kubernetes-newest': newest, 'kubernetes-oldest': oldest } = releases;
  const { velero } = releases;
  const expected: Readonly<Record<string, string | undefined>> = { 'kubernetes-oldest': oldest, velero };
  for (const { name } of goModules) expect(releases[name], name).toBe(expected[name] ?? newest);
  expect(velero).toMatch(/^\d+\.\d+$/);
  expect(newest).toMatch(/^\d+\.\d+$/);
  expect(oldest).toMatch(/^\d+\.\d+$/);
});

test('the conformance cases were recorded from the pinned Kubernetes: another one is compared less strictly', () => {
  expect(readRecording().server).toBe(NEWEST_RELEASE);
});

test('docs/development/dependencies.md says why each Go module of the tests is there', () => {
  const page = read('docs/development/dependencies.md');
  expect(goModules.filter(({ name }) => !page.includes(`\`${name}\``))).toEqual([]);
});

test('benchmarks have the same semi-spaces as the image', () => {
  const size = CONTAINER_HEAP.filter((flag) => flag.startsWith('--max-semi-space-size='));
  expect(read('deploy/Dockerfile')).toContain(`"${size.join()}"`);
});

test('the image starts Node without a debugger signal', () => {
  expect(read('deploy/Dockerfile')).toMatch(/^ENTRYPOINT .*"--disable-sigusr1"/m);
});
