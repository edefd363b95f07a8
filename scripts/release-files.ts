/**
 * Writes the released image into install.yaml and into the values of the chart, in place:
 * node scripts/release-files.ts ghcr.io/owner/gatehouse sha256:…
 * Imports only modules of Node: its job may write to registries, so it installs no packages.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface ReleasedImage {
  readonly repository: string;
  /** `sha256:…` */
  readonly digest: string;
}

/** Of each process. */
const IMAGES = 2;

/** @throws Error when the digest is invalid, or the text does not contain the generated image once for each process */
export function withImage(install: string, { repository, digest }: ReleasedImage): string {
  checkDigest(digest);
  return replaced(install, /^(\s+image: )gatehouse:\S+$/gm, `$1${repository}@${digest}`, IMAGES);
}

/** Does the same for values.yaml. */
export function withImageValues(values: string, { repository, digest }: ReleasedImage): string {
  checkDigest(digest);
  const named = replaced(values, /^( {2}repository: )gatehouse$/gm, `$1${repository}`);
  return replaced(named, /^( {2}digest: )""$/gm, `$1${digest}`);
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
  const [repository, digest] = process.argv.slice(2);
  if (repository === undefined || digest === undefined)
    throw new Error('usage: node scripts/release-files.ts <repository> <digest>');
  const deploy = join(import.meta.dirname, '..', 'deploy');
  const edit = (path: string, change: (text: string, image: ReleasedImage) => string) => {
    const file = join(deploy, path);
    writeFileSync(file, change(readFileSync(file, 'utf8'), { repository, digest }));
  };
  edit('install.yaml', withImage);
  edit('chart/gatehouse/values.yaml', withImageValues);
}
