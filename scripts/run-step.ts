import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';

import { printsAs, type Step } from './tour-steps.ts';

export interface Shell {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface Ran {
  readonly code: number | undefined;
  /** What it wrote to standard output, then what it wrote to standard error. */
  readonly printed: string;
}

/** A step that waits for something says how long itself; one that hangs ends at last: milliseconds. */
const PATIENCE_MS = 60_000;

/** Runs a command as typed at a prompt of bash. A command that does not end in time has no exit code. */
export function runCommand(command: string, { cwd, env }: Shell): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      'bash',
      // Its standard input is a socket, which bash takes for a login from elsewhere, and reads ~/.bashrc.
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

/** How long Gatehouse may take until a command that only reads shows what was done before: milliseconds. */
const SEEN_WITHIN_MS = 30_000;

/** Runs a step. One that only reads is repeated for some seconds until it prints what it should: controllers take their time. */
export async function runStep(step: Step, shell: Shell): Promise<Ran> {
  const deadline = performance.now() + SEEN_WITHIN_MS;
  for (;;) {
    const ran = await runCommand(step.command, shell);
    if (isAsSaid(step, ran) || !onlyReads(step.command) || performance.now() > deadline) return ran;
    await sleep(200);
  }
}

/** Of a pipe, what stands first. */
const onlyReads = (command: string): boolean =>
  /^(kubectl( -n \S+)? (get|describe|events|explain|auth)|gatehouse (status|doctor|restore status|review)) /.test(
    `${command} `,
  );

/** Whether a step did what its page says: a page that shows nothing of the output at least says that it works. */
export const isAsSaid = ({ expected }: Step, { code, printed }: Ran): boolean =>
  printsAs(expected, printed) && (expected.trim() === '…' ? code === 0 : code !== undefined);
