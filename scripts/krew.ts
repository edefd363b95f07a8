/**
 * Prints the Krew manifest of a release: node scripts/krew.ts https://github.com/owner/gatehouse v1.2.3 <folder>. The
 * folder contains the archives of scripts/executable.ts. Imports only modules of Node: its job may write to registries.
 *
 * @see https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A platform as Node names it, and as Krew does. */
const PLATFORMS: Readonly<Record<string, { readonly os: string; readonly arch: string }>> = {
  'darwin-arm64': { os: 'darwin', arch: 'arm64' },
  'linux-arm64': { os: 'linux', arch: 'arm64' },
  'linux-x64': { os: 'linux', arch: 'amd64' },
};

export interface Archive {
  readonly file: string;
  readonly sha256: string;
}

/** @throws Error when an archive is missing or of another platform */
export function renderKrew(url: string, tag: string, archives: readonly Archive[]): string {
  const expected = Object.keys(PLATFORMS).map((platform) => `kubectl-gatehouse-${platform}.tar.gz`);
  const given = archives.map(({ file }) => file).toSorted();
  if (given.join() !== expected.join())
    throw new Error(`the archives are ${given.join(', ')} instead of ${expected.join(', ')}`);
  return `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: gatehouse
spec:
  version: "${tag}"
  homepage: ${url}
  shortDescription: Status, policy reviews and restores with Gatehouse
  description: |
    Shows the health of Gatehouse in a cluster (certificates, CA bundles, admission policies, restore windows), diagnoses
    common problems, tests policies without a cluster, lists stored objects that a stricter policy would refuse, and
    opens and closes restore windows. "kubectl gatehouse sandbox" runs Gatehouse against an in-memory Kubernetes API.
  caveats: |
    This program loads no handlers in TypeScript. The image and the npm package @gatehouse-dev/gatehouse do.
  platforms:
${archives.map((archive) => platformOf(url, tag, archive)).join('')}`;
}

function platformOf(url: string, tag: string, { file, sha256 }: Archive): string {
  const { os, arch } = PLATFORMS[file.replace(/^kubectl-gatehouse-|\.tar\.gz$/g, '')] ?? { os: '', arch: '' };
  return `    - selector:
        matchLabels:
          os: ${os}
          arch: ${arch}
      uri: ${url}/releases/download/${tag}/${file}
      sha256: "${sha256}"
      bin: kubectl-gatehouse
`;
}

if (import.meta.main) {
  const [url, tag, folder] = process.argv.slice(2);
  if (url === undefined || tag === undefined || folder === undefined)
    throw new Error('usage: node scripts/krew.ts <URL of the repository> <tag> <folder>');
  const archives = readdirSync(folder)
    .filter((file) => file.endsWith('.tar.gz'))
    .toSorted()
    .map((file) => ({
      file,
      sha256: createHash('sha256')
        .update(readFileSync(join(folder, file)))
        .digest('hex'),
    }));
  process.stdout.write(renderKrew(url, tag, archives));
}
