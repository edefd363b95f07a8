import { closeSync, fsyncSync, ftruncateSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { lockFolder } from './folder-lock.ts';
import { idOf, logLine, readFiles, snapshotLines } from './persisted-files.ts';
import type { StorageContent } from '../../machinery/storage/storage.ts';
import type { Storage } from '../../machinery/storage/stored.ts';

/** Below this number of writes, reading a log is faster than writing a snapshot. */
const SHORT_LOG = 10_000;

export interface Persistence {
  /** For `createStorage`. */
  readonly initial: StorageContent;
  /**
   * Persists every write from now on; call it before the first write. Disk errors reach the storage's
   * `onWatcherError`, and the next write tries to save everything again. `close` saves a snapshot and releases the
   * folder.
   */
  readonly attach: (storage: Storage) => { readonly close: () => void };
}

/**
 * Opens the folder, creating it if necessary, and holds it until `close`. A write is passed to the operating system
 * before the call returns: it survives the end of the process, but not necessarily a crash of the machine.
 *
 * @throws Error if another sandbox uses the folder, or a file in it is damaged
 */
export function openPersistence(folder: string): Persistence {
  mkdirSync(folder, { recursive: true, mode: 0o700 }); // it will contain Secrets
  const unlock = lockFolder(folder);
  const [snapshot, log] = [join(folder, 'snapshot.jsonl'), join(folder, 'log.jsonl')];
  try {
    const initial = readFiles(snapshot, log) ?? { revision: 1, objects: [] };
    return {
      initial,
      attach: (storage) => {
        if (storage.revision() !== initial.revision)
          throw new Error('the storage was written to before persistence was attached');
        // A new snapshot also removes a torn line from the log.
        return keep({ storage, initial, snapshot, log, unlock });
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}

interface Kept {
  readonly storage: Storage;
  readonly initial: StorageContent;
  readonly snapshot: string;
  readonly log: string;
  readonly unlock: () => void;
}

function keep({ storage, initial, snapshot, log, unlock }: Kept): { readonly close: () => void } {
  const objects = new Map(initial.objects.map((stored) => [idOf(stored.place, stored.object), stored]));
  const logFile = openSync(log, 'a', 0o600);
  let logged = 0;
  let complete = true; // whether snapshot and log together are complete
  let saved = initial.revision;

  const save = () => {
    replaceFile(snapshot, snapshotLines(saved, objects));
    ftruncateSync(logFile, 0);
    logged = 0;
    complete = true;
  };
  save();

  const stop = storage.watchAll((place, event) => {
    const id = idOf(place, event.object);
    if (event.type === 'DELETED') objects.delete(id);
    else objects.set(id, { place, object: event.object });
    saved = event.revision;
    logged += 1;
    if (!complete || logged > Math.max(SHORT_LOG, objects.size)) {
      save();
      return;
    }
    complete = false;
    writeWhole(logFile, logLine(place, event));
    complete = true;
  });

  return {
    close: () => {
      stop();
      try {
        save();
      } finally {
        closeSync(logFile);
        unlock();
      }
    },
  };
}

/** Replaces a file atomically, even if the machine crashes. */
function replaceFile(file: string, lines: Iterable<string>): void {
  const draft = `${file}.new`;
  const descriptor = openSync(draft, 'w', 0o600);
  try {
    for (const chunk of chunked(lines, 1 << 20)) writeWhole(descriptor, chunk);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(draft, file);
  const folder = openSync(dirname(file), 'r');
  try {
    fsyncSync(folder); // without it, the rename may be lost although the data is on disk
  } finally {
    closeSync(folder);
  }
}

/** The same text in fewer chunks of about `size` characters, because each write is a system call. */
function* chunked(lines: Iterable<string>, size: number): Iterable<string> {
  let chunk = '';
  for (const line of lines) {
    chunk += line;
    if (chunk.length < size) continue;
    yield chunk;
    chunk = '';
  }
  yield chunk;
}

/** A single write may be partial if the disk is nearly full. */
function writeWhole(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  let done = 0;
  while (done < bytes.length) done += writeSync(descriptor, bytes, done);
}
