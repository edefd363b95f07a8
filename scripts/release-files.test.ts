import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

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
  const before = '          image: gatehouse:0.1.0';
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
