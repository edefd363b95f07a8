/** The image of the pods has exactly the files that deploy/Dockerfile puts into the one of a release. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { productionPackages } from '../../scripts/production-packages.ts';
import { isNeeded } from '../../scripts/prune-modules.ts';
import { parseDockerfile } from '../support/node/image.ts';
import { imageArchives } from '../support/node/setup.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const HOME = 'gatehouse';

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');
const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');
const say = (command: string, ...args: readonly string[]): readonly string[] =>
  lines(execFileSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 2 ** 20 }));

let folder: string;
/** Relative to the root of the image, without folders. */
let files: readonly string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-files-'));
  execFileSync('tar', ['-xf', imageArchives()[1] ?? '', '-C', folder]);
  const blob = (digest: string) => join(folder, 'blobs', ...digest.split(':'));
  const parse = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'));
  const { manifests } = parse(join(folder, 'index.json')) as { manifests: readonly { digest: string }[] }; // packImage wrote it
  const { layers } = parse(blob(manifests[0]?.digest ?? '')) as { layers: readonly { digest: string }[] };
  files = say('tar', '-tf', blob(layers[0]?.digest ?? ''))
    .map((path) => path.replace(/^\.\//, ''))
    .filter((path) => path !== '' && !path.endsWith('/'));
});
afterAll(() => rmSync(folder, { recursive: true }));

const under = (place: string): readonly string[] =>
  files.filter((path) => path.startsWith(`${place}/`)).map((path) => path.slice(place.length + 1));

it('has one module for each source, and nothing of the tests', () => {
  const sources = say('git', 'ls-files', 'src')
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .map((path) => path.replace(/^src\//, '').replace(/\.ts$/, '.js'));
  const modules = under(`${HOME}/dist`).filter((path) => path.endsWith('.js'));
  expect(modules.toSorted()).toEqual(sources.toSorted());
});

it('has the manifests that doctor compares a cluster with', () => {
  expect(under(`${HOME}/deploy`).toSorted()).toEqual(
    say('git', 'ls-files', 'deploy/base')
      .map((path) => path.replace(/^deploy\//, ''))
      .toSorted(),
  );
});

it('has all production packages and no other, without files that no program reads', () => {
  const modules = under(`${HOME}/node_modules`);
  const packages = productionPackages(read('package-lock.json'));
  const found = modules.filter((path) => path.endsWith('/package.json'));
  for (const name of packages) expect(found).toContain(`${name}/package.json`);
  const owner = (path: string) =>
    packages.filter((name) => path.startsWith(`${name}/`)).toSorted((a, b) => b.length - a.length)[0];
  const strangers = modules.filter((path) => {
    const name = owner(path);
    return name === undefined ? !/^\.(bin|package-lock)/.test(path) : !isNeeded(path.slice(name.length + 1));
  });
  expect(strangers).toEqual([]);
});

it('contains apart from that only package.json and the replacement for the base image', () => {
  const others = files.filter((path) => !/^gatehouse\/(dist|deploy|node_modules)\//.test(path));
  const base = /^(nodejs\/bin\/node|etc\/passwd|(usr\/)?lib(64)?\/.*\.so.*)$/;
  expect(others.filter((path) => !base.test(path))).toEqual([`${HOME}/package.json`]);
});

it('copies nothing that .dockerignore keeps from a container engine', () => {
  const allowed = lines(read('.dockerignore')).flatMap((line) =>
    line.startsWith('!') ? [line.slice(1)] : [],
  );
  const copied = parseDockerfile(read('deploy/Dockerfile'))
    .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from='))
    .flatMap(({ text }) => text.split(/\s+/).slice(0, -1));
  expect(copied.filter((path) => !allowed.includes(path))).toEqual([]);
});
