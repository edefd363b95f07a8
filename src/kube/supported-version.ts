/** The releases of Kubernetes that Gatehouse supports: 1.30 to 1.37. */
import { shorten } from '../json/printable.ts';
import type { ServerVersion } from './discovery.ts';

export const OLDEST_MINOR = 30;
export const NEWEST_MINOR = 37;

export const UPGRADE = 'upgrade every API server of the cluster';

/** @throws if the API server is too old */
export function refuseOlder(version: ServerVersion): void {
  const problem = versionProblem(version);
  if (problem !== undefined) throw new Error(`${problem}: ${UPGRADE}`);
}

/**
 * Why Gatehouse does not work with an API server; undefined: it does.
 *
 * A newer release is not refused: discovery finds what it serves. Neither is an API server that hides its version.
 */
export function versionProblem({ major, minor, gitVersion }: ServerVersion): string | undefined {
  if (major !== 1 || minor >= OLDEST_MINOR) return undefined;
  const name = gitVersion === '' ? `${major}.${minor}` : shorten(gitVersion, LONGEST_NAME);
  return `the API server runs Kubernetes ${name}, but Gatehouse supports 1.${OLDEST_MINOR} to 1.${NEWEST_MINOR}`;
}

/** Vendors append their own version. */
const LONGEST_NAME = 64;

/** Whether a release is newer than those with which Gatehouse is tested. */
export const isUntested = ({ major, minor }: ServerVersion): boolean => major > 1 || minor > NEWEST_MINOR;
