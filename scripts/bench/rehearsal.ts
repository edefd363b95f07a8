/** Time and memory of `gatehouse restore rehearse`, as a user runs it: one process, no cluster. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { pack } from 'tar-stream';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { MAIN } from '../../test/support/main-module.ts';
import { APPLICATIONS, applicationPolicy, kindManifests, ZONES } from '../../test/support/restore-kinds.ts';
import { atMost, type Figure } from './figures.ts';
import { backupOf } from './restore-scene.ts';
import { mebibytes, whole } from './table.ts';

const OBJECTS = 10_000;
const LONGEST_MS = 30_000;
const MOST_BYTES = 500 * 2 ** 20;
const LOOK_EVERY_MS = 50;

/** @throws Error when the rehearsal finds a problem: the backup has none */
export async function rehearsalFigures(): Promise<readonly Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'));
  try {
    const archive = join(folder, 'bench.tar.gz');
    const policies = write(folder, 'policies.json', [applicationPolicy]);
    const crds = write(folder, 'crds.json', kindManifests);
    await writeArchive(archive);
    const { milliseconds, bytes } = await measured([
      ...['restore', 'rehearse', archive, '--policies', policies, '--crds', crds],
    ]);
    return [
      {
        what: `rehearsal of ${whole(OBJECTS)} objects, with the start of the process`,
        measured: `${(milliseconds / 1_000).toFixed(2)} s`,
        target: atMost(milliseconds, LONGEST_MS, (ms) => `${ms / 1_000} s`),
      },
      {
        what: '  memory (RSS), the most',
        measured: mebibytes(bytes),
        target: atMost(bytes, MOST_BYTES, mebibytes),
      },
    ];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function write(folder: string, name: string, items: readonly KubeObject[]): string {
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
  return file;
}

async function writeArchive(file: string): Promise<void> {
  const tar = pack();
  const written = pipeline(tar, createGzip(), createWriteStream(file));
  tar.entry({ name: 'metadata/version' }, '1.1.0');
  for (const object of backupOf(OBJECTS)) {
    const { namespace, name } = object.metadata;
    const { resource, group } = object.kind === ZONES.kind ? ZONES : APPLICATIONS;
    const scope = namespace === undefined ? 'cluster' : `namespaces/${namespace}`;
    tar.entry({ name: `resources/${resource}.${group}/${scope}/${name}.json` }, JSON.stringify(object));
  }
  tar.finalize();
  await written;
}

async function measured(args: readonly string[]) {
  const began = performance.now();
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const exited = once(child, 'exit');
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  let bytes = 0;
  while (child.exitCode === null && child.signalCode === null) {
    bytes = Math.max(bytes, mostOf(child.pid));
    await Promise.race([exited, sleep(LOOK_EVERY_MS)]);
  }
  if (child.exitCode !== 0) throw new Error(`the rehearsal failed: ${said}`);
  if (bytes === 0) throw new Error('the memory of a process is only known on Linux');
  return { milliseconds: performance.now() - began, bytes };
}

/** The kernel keeps the maximum of the process; 0 when it has ended. */
function mostOf(pid: number | undefined): number {
  try {
    const found = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(found?.[1] ?? 0) * 1_024;
  } catch {
    return 0;
  }
}
