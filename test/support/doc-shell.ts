/** The tools of a reader of the docs: a sandbox, a shell with kubectl and gatehouse, a clone of the repository. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

import type { Shell } from '../../scripts/run-step.ts';
import { OWN_NAME } from '../../src/runtime/handlers/load-handlers.ts';
import { ROOT } from './doc-pages.ts';
import { MAIN } from './main-module.ts';
import { eventually, startProgram, tail } from './processes.ts';

/** Startup timeout of a sandbox, in milliseconds. */
const READY_WITHIN_MS = 60_000;

export interface Reader {
  readonly shell: Shell;
  readonly stop: () => Promise<void>;
}

/** @param flags arguments of `gatehouse sandbox` */
export async function startReader(flags: readonly string[]): Promise<Reader> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-docs-'));
  const home = join(folder, 'home');
  const bin = join(folder, 'bin');
  const clone = join(folder, 'gatehouse');
  for (const made of [home, bin, clone, join(folder, 'tmp'), join(home, '.local', 'bin')])
    mkdirSync(made, { recursive: true });
  writeProgram(bin);
  cloneInto(clone);
  writePackage(folder);
  const env = {
    PATH: [
      bin,
      join(home, '.local', 'bin'),
      dirname(process.execPath),
      ...folderOf('kubectl'),
      '/usr/local/bin',
      '/usr/bin',
      '/bin',
    ].join(delimiter),
    HOME: home,
    TMPDIR: join(folder, 'tmp'),
    KUBECONFIG: join(folder, 'kubeconfig'),
    GOGC: 'off', // kubectl ends before garbage collection pays off
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, // of test/support/bundle-setup.ts
    LANG: 'C.UTF-8',
    TZ: 'UTC',
  };
  const logFile = join(folder, 'sandbox.log');
  const program = startProgram(process.execPath, [MAIN, 'sandbox', ...flags], { logFile, env, cwd: clone });
  const stop = async () => {
    await program.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const kubeconfig = await eventually(
      'a sandbox',
      () => {
        if (!program.isRunning()) throw new Error(tail(logFile));
        return /^ *export KUBECONFIG=(\S+)$/m.exec(readFileSync(logFile, 'utf8'))?.[1];
      },
      { timeoutMs: READY_WITHIN_MS },
    );
    symlinkSync(kubeconfig, env.KUBECONFIG);
  } catch (error) {
    await stop();
    throw error;
  }
  return { shell: { cwd: clone, env }, stop };
}

/** The folder of the first program of this name on the PATH. */
const folderOf = (name: string): readonly string[] =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => existsSync(join(folder, name)))
    .slice(0, 1);

function writeProgram(bin: string): void {
  const path = join(bin, 'gatehouse');
  writeFileSync(path, `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  chmodSync(path, 0o755);
}

/** The package as `npm install` would put it above the project of a reader, but from its sources. */
function writePackage(folder: string): void {
  const path = join(folder, 'node_modules', OWN_NAME);
  mkdirSync(path, { recursive: true });
  const exports = { '.': './index.ts', './cel': './cel.ts', './testing': './testing.ts' };
  writeFileSync(join(path, 'package.json'), JSON.stringify({ type: 'module', exports }));
  for (const name of ['index.ts', 'cel.ts', 'testing.ts'])
    symlinkSync(join(ROOT, 'src', name), join(path, name));
}

/**
 * Copies deploy/, because pages write into it and kustomize follows no symlinks out of a folder; links everything else.
 */
function cloneInto(clone: string): void {
  const copied = new Set(['deploy']);
  const left = new Set(['.git', 'dist', 'coverage']);
  for (const name of readdirSync(ROOT)) {
    if (left.has(name)) continue;
    if (copied.has(name)) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
    else symlinkSync(join(ROOT, name), join(clone, name));
  }
}
