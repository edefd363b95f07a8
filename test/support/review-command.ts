/** Runs `gatehouse review` and similar commands like a user or a pipeline. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { MAIN } from './main-module.ts';
import { outputOf } from './processes.ts';

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
  words: readonly string[],
  { cwd = ROOT, standardInput = '' }: RunOptions = {},
): Promise<Ran> {
  const args = [MAIN, ...words];
  const { printed, complaints, code } = await outputOf(process.execPath, args, { cwd, input: standardInput });
  return { code, stdout: printed, stderr: complaints };
}

export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
}
