/** The paths of objects in a Velero backup. */
import type { GroupResource } from '../../json/kube-object.ts';

export interface BackupPath {
  readonly resource: GroupResource;
  /** Undefined for cluster-scoped objects. */
  readonly namespace: string | undefined;
  readonly name: string;
  /**
   * A backup contains most objects twice: at the path without a version, and in the folder of the preferred version.
   * It may also contain other versions. The lowest rank is the one that Velero restores.
   */
  readonly rank: number;
}

const PREFERRED = '-preferredversion';
const SCOPED = /^(?:cluster|namespaces\/(?<namespace>[^/]+))\/(?<name>[^/]+)\.json$/;

/**
 * Parses e.g. `resources/servers.infra.example.com/v1-preferredversion/namespaces/shop/db.json`.
 *
 * @param path without a leading slash
 * @returns undefined for any other file of a backup
 */
export function parseBackupPath(path: string): BackupPath | undefined {
  const [root, folder = '', ...rest] = path.split('/');
  if (root !== 'resources' || folder === '') return undefined;
  const isVersioned = rest[0] !== 'cluster' && rest[0] !== 'namespaces';
  const { namespace, name } = SCOPED.exec(rest.slice(isVersioned ? 1 : 0).join('/'))?.groups ?? {};
  if (name === undefined) return undefined;
  const rank = isVersioned ? (rest[0]?.endsWith(PREFERRED) === true ? 1 : 2) : 0;
  return { resource: parseGroupResource(folder), namespace, name, rank };
}

/** Parses e.g. `servers.infra.example.com`, or `pods` of the core group. */
export function parseGroupResource(text: string): GroupResource {
  const [resource = '', ...group] = text.split('.');
  return { group: group.join('.'), resource };
}
