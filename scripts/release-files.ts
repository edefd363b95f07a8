/**
 * Writes the released image into install.yaml and into the chart, and the places of the project into the chart, in place:
 * node scripts/release-files.ts ghcr.io/owner/gatehouse sha256:… https://github.com/owner/gatehouse v1.2.3
 * Imports only modules of Node: its job may write to registries, so it installs no packages.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface ReleasedImage {
  readonly repository: string;
  readonly digest: string;
}

const IMAGES = 2;

/** @throws Error when the digest is invalid, or the text does not contain the generated image once for each process */
export function withImage(install: string, { repository, digest }: ReleasedImage): string {
  checkDigest(digest);
  return replaced(install, /^(\s+image: )gatehouse:\S+$/gm, `$1${repository}@${digest}`, IMAGES);
}

export function withImageValues(values: string, { repository, digest }: ReleasedImage): string {
  checkDigest(digest);
  const named = replaced(values, /^( {2}repository: )gatehouse$/gm, `$1${repository}`);
  return replaced(named, /^( {2}digest: )""$/gm, `$1${digest}`);
}

export interface Places {
  readonly url: string;
  readonly tag: string;
}

/** Sets the image in the annotation of Chart.yaml, and adds home page, sources and icon. */
export function withPlaces(
  chart: string,
  { repository, digest }: ReleasedImage,
  { url, tag }: Places,
): string {
  checkDigest(digest);
  if (!/^https:\/\/[\w./-]+[^/]$/.test(url)) throw new Error(`"${url}" is not the URL of a repository`);
  const named = replaced(chart, /^( +image: )gatehouse:\S+$/gm, `$1${repository}@${digest}`);
  return `${named}home: ${url}\nicon: ${url}/raw/${tag}/docs/pictures/icon.svg\nsources:\n  - ${url}/tree/${tag}\n`;
}

function checkDigest(digest: string): void {
  if (!/^sha256:[0-9a-f]{64}$/.test(digest)) throw new Error(`"${digest}" is not a digest, sha256:…`);
}

function replaced(text: string, what: RegExp, by: string, times = 1): string {
  const found = [...text.matchAll(what)].length;
  if (found !== times) throw new Error(`${what.source} occurs ${found} times instead of ${times}`);
  return text.replace(what, by);
}

if (import.meta.main) {
  const [repository, digest, url, tag] = process.argv.slice(2);
  if (repository === undefined || digest === undefined || url === undefined || tag === undefined)
    throw new Error('usage: node scripts/release-files.ts <image> <digest> <URL of the repository> <tag>');
  const deploy = join(import.meta.dirname, '..', 'deploy');
  const edit = (path: string, change: (text: string, image: ReleasedImage) => string) => {
    const file = join(deploy, path);
    writeFileSync(file, change(readFileSync(file, 'utf8'), { repository, digest }));
  };
  edit('install.yaml', withImage);
  edit('chart/gatehouse/values.yaml', withImageValues);
  edit('chart/gatehouse/Chart.yaml', (text, image) => withPlaces(text, image, { url, tag }));
}
