/** Collects the objects of a Velero backup from its files. */
import { messageOf } from '../../json/abort.ts';
import { isJsonObject, parseJson, textIn, type JsonObject } from '../../json/json.ts';
import { groupResourceName, objectKey, type GroupResource } from '../../json/kube-object.ts';
import { printable } from '../../json/printable.ts';

export interface BackupItem {
  readonly resource: GroupResource;
  readonly namespace: string | undefined;
  readonly name: string;
  readonly object: JsonObject;
}

export interface Backup {
  /** Undefined if the objects do not come from a Velero backup. */
  readonly format: string | undefined;
  readonly items: readonly BackupItem[];
}

/** The backup is invalid, or larger than the limits. */
export class UnusableBackup extends Error {
  override readonly name = 'UnusableBackup';
}

export const BACKUP_LIMITS = { files: 1_000_000, fileBytes: 16 * 2 ** 20, bytes: 2 * 2 ** 30 } as const;

export type BackupCollector = ReturnType<typeof createBackupCollector>;

const VERSION_FILE = 'metadata/version';

export function createBackupCollector() {
  const found = new Map<string, { readonly rank: number; readonly item: BackupItem }>();
  const seen = new Set<string>();
  let format: string | undefined;
  return {
    /** Call it once per file. @throws UnusableBackup for a path that leaves the backup, or that occurs twice */
    wants: (path: string): boolean => {
      const clean = cleanPath(path);
      if (seen.has(clean)) throw new UnusableBackup(`${printable(clean)}: occurs twice in the backup`);
      seen.add(clean);
      if (clean === VERSION_FILE) return true;
      const parsed = parseBackupPath(clean);
      return parsed !== undefined && isBetter(parsed, found.get(identityOf(parsed)));
    },
    add: (path: string, content: string): void => {
      const clean = cleanPath(path);
      if (clean === VERSION_FILE) {
        format = content.trim();
        return;
      }
      const parsed = parseBackupPath(clean);
      if (parsed === undefined) return;
      const { rank, ...ref } = parsed;
      found.set(identityOf(parsed), { rank, item: { ...ref, object: objectAt(clean, parsed, content) } });
    },
    finish: (): Backup => {
      if (format === undefined)
        throw new UnusableBackup(`not a Velero backup: the file ${VERSION_FILE} is missing`);
      if (!/^1(\.|$)/.test(format))
        throw new UnusableBackup(
          `${VERSION_FILE}: format version "${printable(format.slice(0, 32))}" is not supported: only 1.x is`,
        );
      return { format, items: [...found.values()].map(({ item }) => item) };
    },
  };
}

const isBetter = ({ rank }: BackupPath, known: { readonly rank: number } | undefined): boolean =>
  known === undefined || rank < known.rank;

const identityOf = ({ resource, ...ref }: BackupPath): string =>
  `${groupResourceName(resource)} ${objectKey(ref)}`;

function cleanPath(path: string): string {
  const parts = path.split('/').filter((part, index) => part !== '.' && !(part === '' && index > 0));
  if (parts[0] === '' || parts.includes('..') || path.includes('\\') || path.includes('\0'))
    throw new UnusableBackup(`${printable(path)}: the path is outside the backup`);
  return parts.join('/');
}

function objectAt(path: string, { namespace, name }: BackupPath, content: string): JsonObject {
  const fail = (why: string) => new UnusableBackup(printable(`${path}: ${why}`));
  let object: unknown;
  try {
    object = parseJson(content);
  } catch (error) {
    throw fail(error instanceof RangeError ? 'it is nested too deeply' : messageOf(error));
  }
  if (!isJsonObject(object) || textIn(object, 'apiVersion') === '' || textIn(object, 'kind') === '')
    throw fail('not a Kubernetes object: apiVersion and kind are required');
  const given = [textIn(object, 'metadata', 'namespace'), textIn(object, 'metadata', 'name')];
  if (given[0] !== (namespace ?? '') || given[1] !== name)
    throw fail('metadata.namespace and metadata.name must match the path');
  return object;
}

interface BackupPath extends Omit<BackupItem, 'object'> {
  /** Most objects are there twice, without a version and in the preferred one. Velero restores the lowest rank. */
  readonly rank: number;
}

const PREFERRED = '-preferredversion';
const SCOPED = /^(?:cluster|namespaces\/(?<namespace>[^/]+))\/(?<name>[^/]+)\.json$/;

/** E.g. `resources/servers.infra.example.com/v1-preferredversion/namespaces/shop/db.json`; undefined: another file. */
function parseBackupPath(path: string): BackupPath | undefined {
  const [root, folder = '', ...rest] = path.split('/');
  if (root !== 'resources' || folder === '') return undefined;
  const isVersioned = rest[0] !== 'cluster' && rest[0] !== 'namespaces';
  const { namespace, name } = SCOPED.exec(rest.slice(isVersioned ? 1 : 0).join('/'))?.groups ?? {};
  if (name === undefined) return undefined;
  const rank = isVersioned ? (rest[0]?.endsWith(PREFERRED) === true ? 1 : 2) : 0;
  return { resource: parseGroupResource(folder), namespace, name, rank };
}

/** E.g. `servers.infra.example.com`, or `pods` of the core group. */
export function parseGroupResource(text: string): GroupResource {
  const [resource = '', ...group] = text.split('.');
  return { group: group.join('.'), resource };
}
