/** Commands at a terminal that is none: `script` of util-linux gives them one. */
import { execFileSync, spawn } from 'node:child_process';

/** Whether this machine has it; says so in the log of the test run where it has not. */
export const HAS_TERMINAL = ((): boolean => {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    console.warn('skipped: whatever takes a terminal, for there is no `script` of util-linux on the PATH');
    return false;
  }
})();

export interface Shown {
  readonly code: number | null;
  /** All that the terminal got, escapes and carriage returns included. */
  readonly screen: string;
}

/**
 * Runs a line of shell with a terminal of so many columns for what it does not redirect.
 *
 * @param env beside the environment of the tests; undefined takes a variable out of it
 */
export async function atTerminal(
  line: string,
  { columns = 100, env = {} }: { readonly columns?: number; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<Shown> {
  const command = `stty cols ${columns} rows 24; ${line}`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text;
  });
  const code = await new Promise<number | null>((done, fail) => {
    child.once('error', fail).once('close', done);
  });
  return { code, screen };
}
