import { readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Folders that this process holds. A lock file with our own pid that is missing here is stale, e.g. from the last run
 * of a container.
 */
const held = new Set<string>();

/**
 * Locks a folder for this process with a file `lock` that holds its pid. The lock of a dead process is taken over.
 * Returns a function that releases the lock.
 *
 * @throws Error if a running process holds it
 */
export function lockFolder(folder: string): () => void {
  const real = realpathSync(folder);
  const file = join(real, 'lock');
  if (held.has(real)) throw new Error(inUse(folder, process.pid, file));
  if (!tryWrite(file)) {
    const owner = readPid(file);
    if (owner !== undefined && owner !== process.pid && isRunning(owner)) {
      throw new Error(inUse(folder, owner, file));
    }
    rmSync(file, { force: true });
    // Another process may have taken it over first.
    if (!tryWrite(file)) throw new Error(inUse(folder, readPid(file), file));
  }
  held.add(real);
  return () => {
    held.delete(real);
    rmSync(file, { force: true });
  };
}

const inUse = (folder: string, pid: number | undefined, file: string) =>
  `${folder} is in use by process ${pid ?? 'unknown'}: stop that sandbox or choose another folder. ` +
  `If that process is no sandbox, delete ${file}.`;

function tryWrite(file: string): boolean {
  try {
    writeFileSync(file, `${process.pid}\n`, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

function readPid(file: string): number | undefined {
  try {
    const pid = Number(readFileSync(file, 'utf8'));
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM'; // the process exists, but belongs to another user
  }
}

const codeOf = (error: unknown) => (error instanceof Error && 'code' in error ? error.code : undefined);
