/** Finds the newest backup in a folder: the mounted object storage of Velero, or a folder of archives. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { isJsonObject, parseJson, textIn } from '../../../json/json.ts';
import { messageOf } from '../../../json/error-message.ts';
import { UnusableBackup } from '../../../restore/backup/backup.ts';

/** An archive, and when its backup was taken. */
export interface FoundBackup {
  readonly path: string;
  readonly takenAt: Date;
}

/** A location of Velero has `backups/<name>/<name>.tar.gz`, with `velero-backup.json` next to it. */
const INDEX = 'velero-backup.json';
/** The phases of a backup whose archive is complete. */
const USABLE = ['Completed', 'PartiallyFailed', 'Finalizing', 'FinalizingPartiallyFailed'];
/** Velero writes a few kilobytes. */
const LONGEST_INDEX = 2 ** 20;

/** @throws UnusableBackup if the folder cannot be read, or contains no usable backup */
export function newestBackup(folder: string): FoundBackup {
  const [newest] = candidates(folder).toSorted((a, b) => b.takenAt.getTime() - a.takenAt.getTime());
  if (newest === undefined)
    throw new UnusableBackup(
      `${folder}: there is no backup: expected backups/<name>/<name>.tar.gz with ${INDEX}, as Velero writes them, or *.tar.gz`,
    );
  return newest;
}

function candidates(folder: string): readonly FoundBackup[] {
  const location = join(folder, 'backups');
  const isLocation = statSync(location, { throwIfNoEntry: false })?.isDirectory() === true;
  const root = isLocation ? location : folder;
  return namesIn(root).flatMap((name) => {
    const path = join(root, name);
    const stats = statSync(path, { throwIfNoEntry: false }); // a backup can be deleted at any time
    if (stats?.isDirectory() === true) return ofVelero(path, name);
    return stats?.isFile() === true && name.endsWith('.tar.gz') ? [{ path, takenAt: stats.mtime }] : [];
  });
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw new UnusableBackup(`${folder}: ${messageOf(error)}`, { cause: error });
  }
}

/** A backup that is being written or deleted lacks one of its files, or is in another phase. */
function ofVelero(folder: string, name: string): readonly FoundBackup[] {
  const path = join(folder, `${name}.tar.gz`);
  const index = join(folder, INDEX);
  const size = statSync(index, { throwIfNoEntry: false })?.size;
  if (size === undefined || statSync(path, { throwIfNoEntry: false }) === undefined) return [];
  if (size > LONGEST_INDEX) throw new UnusableBackup(`${index}: it is larger than ${LONGEST_INDEX} bytes`);
  const backup = parsed(index);
  const takenAt = new Date(textIn(backup, 'status', 'startTimestamp'));
  const isUsable = USABLE.includes(textIn(backup, 'status', 'phase')) && !Number.isNaN(takenAt.getTime());
  return isUsable ? [{ path, takenAt }] : [];
}

/** @throws UnusableBackup */
function parsed(index: string) {
  try {
    const json = parseJson(readFileSync(index, 'utf8'));
    if (isJsonObject(json)) return json;
  } catch (error) {
    throw new UnusableBackup(`${index}: ${messageOf(error)}`, { cause: error });
  }
  throw new UnusableBackup(`${index}: not a Kubernetes object`);
}
