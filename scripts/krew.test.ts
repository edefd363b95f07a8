import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { renderKrew } from './krew.ts';

const url = 'https://github.com/owner/gatehouse';
const archives = ['darwin-arm64', 'linux-arm64', 'linux-x64'].map((platform, n) => ({
  file: `kubectl-gatehouse-${platform}.tar.gz`,
  sha256: String(n).repeat(64),
}));

test('the Krew manifest has an archive with its checksum for each platform', () => {
  const { apiVersion, kind, metadata, spec } = parse(renderKrew(url, 'v1.2.3', archives)) as {
    readonly apiVersion: string;
    readonly kind: string;
    readonly metadata: object;
    readonly spec: {
      readonly version: string;
      readonly shortDescription: string;
      readonly platforms: object[];
    };
  }; // Krew's format
  expect({ apiVersion, kind, metadata }).toEqual({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'gatehouse' },
  });
  expect(spec.version).toBe('v1.2.3');
  // The index of Krew refuses longer ones.
  expect(spec.shortDescription.length).toBeLessThanOrEqual(50);
  expect(spec.platforms).toEqual(
    [
      ['darwin', 'arm64', 'darwin-arm64'],
      ['linux', 'arm64', 'linux-arm64'],
      ['linux', 'amd64', 'linux-x64'],
    ].map(([os, arch, platform], n) => ({
      selector: { matchLabels: { os, arch } },
      uri: `${url}/releases/download/v1.2.3/kubectl-gatehouse-${platform}.tar.gz`,
      sha256: String(n).repeat(64),
      bin: 'kubectl-gatehouse',
    })),
  );
});

test.each([
  ['a missing archive', archives.slice(1)],
  [
    'an archive of an unknown platform',
    [...archives, { file: 'kubectl-gatehouse-win32-x64.tar.gz', sha256: '' }],
  ],
])('%s is an error', (_what, given) => {
  expect(() => renderKrew(url, 'v1.2.3', given)).toThrow('the archives are');
});
