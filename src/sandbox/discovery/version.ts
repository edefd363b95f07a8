import { arch, platform, version } from 'node:process';

import type { JsonObject } from '../../json/json.ts';

export const GIT_VERSION = 'v1.36.0+sandbox';

/** `/version`: the Kubernetes that we claim to be. */
export const VERSION: JsonObject = {
  major: '1',
  minor: '36',
  emulationMajor: '1',
  emulationMinor: '36',
  minCompatibilityMajor: '1',
  minCompatibilityMinor: '35',
  gitVersion: GIT_VERSION,
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: `node ${version}`,
  compiler: 'none',
  platform: `${platform}/${arch}`,
};
