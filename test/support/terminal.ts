/** Runs commands in a pseudo-terminal, which `script` of util-linux provides. */
import { execFileSync, spawn } from 'node:child_process';

export const HAS_TERMINAL = ((): boolean => {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    console.warn('skipped the tests on a terminal: `script` of util-linux is not on the PATH');
    return false;
  }
})();

/** Runs a shell command with a terminal. @param env added to the tests' environment; undefined removes a variable */
export async function atTerminal(
  line: string,
  { columns = 100, env = {} }: { readonly columns?: number; readonly env?: NodeJS.ProcessEnv } = {},
) {
  const command = `stty cols ${columns} rows 24; ${line}`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { ...process.env, SHELL: '/bin/sh', TERM: 'xterm', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let screen = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (screen += text));
  const code = await new Promise<number | null>((done, fail) => {
    child.once('error', fail).once('close', done);
  });
  return { code, screen };
}
