import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/** Keeps a process and all of its threads on one core. False where that cannot be done. */
export function pinTo(core: number, pid: number): boolean {
  if (core >= availableParallelism()) return false;
  const { status } = spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', String(core), String(pid)]);
  return status === 0;
}
