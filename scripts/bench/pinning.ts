import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/** Pins a process with all its threads to one core. False if the machine does not support it. */
export function pinTo(core: number, pid: number): boolean {
  if (core >= availableParallelism()) return false;
  const { status } = spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', String(core), String(pid)]);
  return status === 0;
}
