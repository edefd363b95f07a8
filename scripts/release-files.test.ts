import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { VERSION } from '../src/config/version.ts';
import { withImage, withImageValues, withPlaces } from './release-files.ts';

const DEPLOY = join(import.meta.dirname, '..', 'deploy');
const install = readFileSync(join(DEPLOY, 'install.yaml'), 'utf8');
const values = readFileSync(join(DEPLOY, 'chart', 'gatehouse', 'values.yaml'), 'utf8');
const chart = readFileSync(join(DEPLOY, 'chart', 'gatehouse', 'Chart.yaml'), 'utf8');
const places = { url: 'https://github.com/owner/gatehouse', tag: 'v0.1.0' };
const image = { repository: 'ghcr.io/owner/gatehouse', digest: `sha256:${'0a'.repeat(32)}` };

test('a release sets the digest of its image in install.yaml, and changes nothing else', () => {
  const released = withImage(install, image).split('\n');
  const changed = install.split('\n').filter((line, n) => line !== released[n]);
  const before = `          image: gatehouse:${VERSION}`;
  expect(changed).toEqual([before, before]);
  expect(released).toContain(`          image: ${image.repository}@${image.digest}`);
});

test('a release sets the digest of its image in the values of the chart', () => {
  const released = parse(withImageValues(values, image)) as object;
  const given = parse(values) as { readonly image: object }; // generated from scripts/chart/values.ts
  expect(released).toEqual({ ...given, image: { ...given.image, ...image } });
});

test('a release sets its image, home page, sources and icon in the metadata of the chart', () => {
  const given = parse(chart) as { readonly annotations: Readonly<Record<string, string>> }; // generated
  const { annotations, ...released } = parse(withPlaces(chart, image, places)) as typeof given;
  expect(released).toEqual({
    ...given,
    annotations: undefined,
    home: places.url,
    icon: `${places.url}/raw/v0.1.0/docs/pictures/icon.svg`,
    sources: [`${places.url}/tree/v0.1.0`],
  });
  expect(parse(annotations['artifacthub.io/images'] ?? '')).toEqual([
    { name: 'gatehouse', image: `${image.repository}@${image.digest}` },
  ]);
  expect(existsSync(join(DEPLOY, '..', 'docs', 'pictures', 'icon.svg'))).toBe(true);
});

test.each([
  ['a tag instead of the digest', () => withImage(install, { ...image, digest: 'v1' }), 'not a digest'],
  ['a released file', () => withImage(withImage(install, image), image), '0 times'],
  ['no URL', () => withPlaces(chart, image, { ...places, url: 'owner/gatehouse' }), 'not the URL'],
  ['edited values', () => withImageValues('image: {}', image), '0 times'],
])('%s is refused', (_what, release, complaint) => {
  expect(release).toThrow(complaint);
});

test('the commands of docs/development/releasing.md set the version wherever it is written', () => {
  const root = join(DEPLOY, '..');
  const commands = /```sh\n( +npm version [^`]*)```/.exec(
    readFileSync(join(root, 'docs', 'development', 'releasing.md'), 'utf8'),
  )?.[1];
  const edits = commands?.split('\n').filter((line) => line.includes('sed '));
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-version-'));
  try {
    for (const path of ['README.md', 'deploy', 'docs', 'src/config/version.ts'])
      cpSync(join(root, path), join(folder, path), { recursive: true });
    const run = (script: string): string =>
      execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder, encoding: 'utf8' });
    run(`git init --quiet && git add . && ${edits?.join('\n') ?? 'false'}`);
    const left = `gatehouse:${VERSION.replaceAll('.', '\\.')}|VERSION = '${VERSION}'`;
    // This page is not changed: it is the example.
    expect(run(`git grep -lE "${left}" -- . ':!docs/development/releasing.md' || true`)).toBe('');
    expect(readFileSync(join(folder, 'src', 'config', 'version.ts'), 'utf8')).toContain("VERSION = '1.2.0'");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
