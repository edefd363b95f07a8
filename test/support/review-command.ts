/** Runs `gatehouse review` and similar commands like a user or a pipeline. */
import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { MAIN } from './main-module.ts';

const ROOT = join(import.meta.dirname, '..', '..');

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly standardInput?: string;
}

export const runReview = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  runGatehouse(['review', ...args], options);

export async function runGatehouse(
  args: readonly string[],
  { cwd = ROOT, standardInput = '' }: RunOptions = {},
): Promise<Ran> {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd, stdio: 'pipe' });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  }
  child.stdin.end(standardInput);
  const code = await new Promise<number | null>((done, fail) => {
    child.once('error', fail).once('close', done);
  });
  return { code, ...output };
}

export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
