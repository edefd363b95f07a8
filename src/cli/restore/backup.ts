/** Finds the newest Velero backup, and reads one: the archive from object storage, or its unpacked folder. */
import {
  closeSync,
  createReadStream,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
} from 'node:fs';
import { join, relative, sep } from 'node:path';
import { PassThrough, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';

import { messageOf } from '../../json/abort.ts';
import { printable } from '../../json/printable.ts';
import {
  BACKUP_LIMITS,
  createBackupCollector,
  UnusableBackup,
  type Backup,
  type BackupCollector,
} from '../../restore/backup/backup.ts';
import { isJsonObject, parseJson, textIn } from '../../json/json.ts';

type BackupLimits = Readonly<Record<keyof typeof BACKUP_LIMITS, number>>;

export function isVeleroBackup(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return false;
  if (stats.isDirectory())
    return statSync(join(path, 'resources'), { throwIfNoEntry: false })?.isDirectory() === true;
  return archiveFormat(path) !== undefined;
}

function archiveFormat(path: string): 'gzip' | 'tar' | undefined {
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(512);
    readSync(file, start, 0, 512, 0);
    if (start[0] === 0x1f && start[1] === 0x8b) return 'gzip';
    return start.toString('latin1', 257, 262) === 'ustar' ? 'tar' : undefined;
  } finally {
    closeSync(file);
  }
}

export async function readBackup(path: string, limits: BackupLimits = BACKUP_LIMITS): Promise<Backup> {
  const collector = createBackupCollector();
  try {
    if (statSync(path).isDirectory()) readFolder(path, collector, limits);
    else await readArchive(path, collector, limits);
    return collector.finish();
  } catch (error) {
    throw unusable(path, error);
  }
}

/** Without a cause: the command prints causes, and the message contains it. */
const unusable = (path: string, error: unknown) => new UnusableBackup(`${path}: ${messageOf(error)}`);

function createMeter(limits: BackupLimits) {
  let [files, bytes] = [0, 0];
  return {
    file: (name: string, size: number): void => {
      files += 1;
      if (files > limits.files) throw new UnusableBackup(`it has more than ${limits.files} files`);
      if (size > limits.fileBytes)
        throw new UnusableBackup(`${printable(name)}: it is larger than ${limits.fileBytes} bytes`);
    },
    bytes: (count: number): void => {
      bytes += count;
      if (bytes > limits.bytes)
        throw new UnusableBackup(`it is larger than ${limits.bytes} bytes when decompressed`);
    },
  };
}

async function readArchive(path: string, collector: BackupCollector, limits: BackupLimits): Promise<void> {
  const meter = createMeter(limits);
  // Counts before the parser, which keeps extended headers of any size in memory.
  const counted = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      try {
        meter.bytes(chunk.length);
        done(undefined, chunk);
      } catch (error) {
        done(error as UnusableBackup); // `bytes` throws nothing else
      }
    },
  });
  const unpacked = archiveFormat(path) === 'tar' ? new PassThrough() : createGunzip();
  const parser = extract();
  const read = async (): Promise<void> => {
    for await (const entry of parser) {
      const { name, type, size } = entry.header;
      meter.file(name, size);
      if (type === 'link' || type === 'symlink')
        throw new UnusableBackup(`${printable(name)}: it is a link, and a Velero backup has none`);
      if ((type !== 'file' && type !== 'contiguous-file') || !collector.wants(name)) {
        entry.resume();
        continue;
      }
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer); // without an encoding, chunks are Buffers
      collector.add(name, Buffer.concat(chunks).toString('utf8'));
    }
  };
  const reading = read().catch((error: unknown) => {
    parser.destroy(error as Error);
    throw error;
  });
  await Promise.all([pipeline(createReadStream(path), unpacked, counted, parser), reading]);
}

function readFolder(root: string, collector: BackupCollector, limits: BackupLimits): void {
  const meter = createMeter(limits);
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      const name = relative(root, path).replaceAll(sep, '/');
      if (entry.isSymbolicLink())
        throw new UnusableBackup(`${printable(name)}: it is a link, and a Velero backup has none`);
      if (entry.isDirectory()) walk(path);
      if (!entry.isFile()) continue;
      const { size } = statSync(path);
      meter.file(name, size);
      if (!collector.wants(name)) continue;
      meter.bytes(size);
      collector.add(name, readFileSync(path, 'utf8'));
    }
  };
  walk(root);
}

export interface FoundBackup {
  readonly path: string;
  readonly takenAt: Date;
}

/** A location of Velero has `backups/<name>/<name>.tar.gz`, with `velero-backup.json` next to it. */
const INDEX = 'velero-backup.json';
const USABLE = ['Completed', 'PartiallyFailed', 'Finalizing', 'FinalizingPartiallyFailed'];
const LONGEST_INDEX = 2 ** 20;

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
  return reading(root, () => readdirSync(root)).flatMap((name) => {
    const path = join(root, name);
    const stats = statSync(path, { throwIfNoEntry: false }); // a backup can be deleted at any time
    if (stats?.isDirectory() === true) return ofVelero(path, name);
    return stats?.isFile() === true && name.endsWith('.tar.gz') ? [{ path, takenAt: stats.mtime }] : [];
  });
}

function reading<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw unusable(path, error);
  }
}

/** Empty while a backup is being written or deleted. */
function ofVelero(folder: string, name: string): readonly FoundBackup[] {
  const path = join(folder, `${name}.tar.gz`);
  const index = join(folder, INDEX);
  const size = statSync(index, { throwIfNoEntry: false })?.size;
  if (size === undefined || statSync(path, { throwIfNoEntry: false }) === undefined) return [];
  if (size > LONGEST_INDEX) throw new UnusableBackup(`${index}: it is larger than ${LONGEST_INDEX} bytes`);
  const backup = reading(index, () => parseJson(readFileSync(index, 'utf8')));
  if (!isJsonObject(backup)) throw new UnusableBackup(`${index}: not a Kubernetes object`);
  const takenAt = new Date(textIn(backup, 'status', 'startTimestamp'));
  const isUsable = USABLE.includes(textIn(backup, 'status', 'phase')) && !Number.isNaN(takenAt.getTime());
  return isUsable ? [{ path, takenAt }] : [];
}
