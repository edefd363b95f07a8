import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { printsAs, type Step } from './tour-steps.ts';

export interface Shell {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface Ran {
  readonly code: number | undefined;
  readonly printed: string;
}

/** Writes the program `gatehouse` into a folder for the PATH: this Node.js, and this main module. */
export function writeProgram(folder: string, main: string): void {
  const script = `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`;
  writeFileSync(join(folder, 'gatehouse'), script, { mode: 0o755 });
}

/** The timeout for a command that hangs, in milliseconds. Commands that wait have shorter timeouts. */
const PATIENCE_MS = 60_000;

/** Runs a command the way bash does at a prompt. The exit code is undefined after a timeout. */
export function runCommand(command: string, { cwd, env }: Shell): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      'bash',
      // The standard input is a socket. Without --norc, bash would take it for a remote login and read ~/.bashrc.
      ['--norc', '-c', command],
      { cwd, env, timeout: PATIENCE_MS, maxBuffer: 64 * 1024 ** 2 },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        resolve({ code: typeof code === 'number' ? code : undefined, printed: stdout + stderr });
      },
    );
    child.stdin?.end();
  });
}

/** The timeout until a read-only command shows the effect of earlier commands, in milliseconds. */
const SEEN_WITHIN_MS = 30_000;

/** Repeats a read-only step until it prints the expected output: controllers need time. */
export async function runStep(step: Step, shell: Shell): Promise<Ran> {
  const deadline = performance.now() + SEEN_WITHIN_MS;
  for (;;) {
    const ran = await runCommand(step.command, shell);
    if (isAsSaid(step, ran) || !onlyReads(step.command) || performance.now() > deadline) return ran;
    await sleep(200);
  }
}

/** Checks the first command of a pipe. */
const onlyReads = (command: string): boolean =>
  /^(kubectl( -n \S+)? (get|describe|events|explain|auth)|gatehouse (status|doctor|restore status|review)) /.test(
    `${command} `,
  );

/** kubectl 1.34 and newer name the namespace of what they delete. */
export const asOlder = (said: string): string => said.replaceAll(/ deleted from \S+ namespace/g, ' deleted');

/** Whether a step did what its page says. If the page omits the output, the exit code must be 0. */
export const isAsSaid = ({ expected }: Step, { code, printed }: Ran): boolean =>
  printsAs(asOlder(expected), asOlder(printed)) &&
  (expected.trim() === '…' ? code === 0 : code !== undefined);
