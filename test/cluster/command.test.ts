/** `npm run cluster`: the node of developers. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

import { eventually } from '../support/processes.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..', '..');
const parent = mkdtempSync(join(tmpdir(), 'gatehouse-command-'));
const folder = join(parent, 'cluster');

const cluster = async (...words: readonly string[]): Promise<string> => {
  const env = { ...process.env, GATEHOUSE_CLUSTER_FOLDER: folder };
  return (await run(process.execPath, [join(ROOT, 'scripts', 'cluster.ts'), ...words], { cwd: ROOT, env }))
    .stdout;
};

afterAll(async () => {
  await cluster('stop');
  rmSync(parent, { recursive: true });
});

/** The processes of the cluster have its folder in their command line, or were started by one that has. */
const processes = (): readonly string[] =>
  readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
    } catch {
      return false; // it has ended
    }
  });

const machine = (): object => ({
  interfaces: readdirSync('/sys/class/net'),
  mounts: readFileSync('/proc/mounts', 'utf8'),
});

it('is ready within a minute, and after a kill, neither a process nor a mount nor an interface is left', async () => {
  const before = machine();
  const from = performance.now();
  expect(await cluster('start')).toContain(`export KUBECONFIG=${folder}`);
  const seconds = (performance.now() - from) / 1_000;
  console.log(`npm run cluster -- start: ${seconds.toFixed(1)} s`);
  expect(seconds).toBeLessThan(60);
  expect(await cluster('kubectl', 'get', 'nodes')).toMatch(/^node0 +Ready /m);
  await expect(cluster('start')).rejects.toThrow(/runs already/);

  process.kill(Number(readFileSync(`${folder}.pid`, 'utf8')), 'SIGKILL');
  await eventually('all processes have ended', () => processes().length === 0);
  expect(machine()).toEqual(before);

  const cgroup = readFileSync(join(folder, 'cgroup'), 'utf8');
  await cluster('stop');
  expect(existsSync(folder)).toBe(false);
  for (const hierarchy of readdirSync('/sys/fs/cgroup'))
    expect(existsSync(join('/sys/fs/cgroup', hierarchy, cgroup))).toBe(false);
});
