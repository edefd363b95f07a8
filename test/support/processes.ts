/** Child processes that cannot outlive the tests that started them. */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The pipe closes when the test process dies, even by SIGKILL; then the shell kills the child. `exec` keeps the
 * child's pid equal to the shell's, so a signal reaches the program.
 */
const tether = (target: '$$' | '-- -$$') =>
  `(exec 3<&0; cat <&3 >/dev/null; kill -KILL ${target} 2>/dev/null) <&0 >/dev/null 2>&1 & exec "$@" </dev/null`;

export type Program = ReturnType<typeof startProgram>;

export interface ProgramOptions {
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly withChildren?: boolean;
}

export function startProgram(command: string, args: readonly string[], options: ProgramOptions) {
  const log = openSync(options.logFile, 'a');
  const { withChildren = false } = options;
  const child = spawn('bash', ['-c', tether(withChildren ? '-- -$$' : '$$'), command, command, ...args], {
    stdio: ['pipe', log, log],
    detached: withChildren, // a process group of its own
    ...(options.env === undefined ? {} : { env: options.env }),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) throw new Error(`could not start ${command}`);

  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
  });
  void exited.then(() => child.stdin?.destroy()); // closes the pipe of the tether
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const kill = (signal: NodeJS.Signals) => {
    if (!withChildren) child.kill(signal);
    else if (isRunning()) process.kill(-pid, signal);
  };
  return {
    pid,
    logFile: options.logFile,
    exited,
    isRunning,
    kill,
    /** Sends SIGTERM, then SIGKILL after `graceMs`. Resolves when the process has ended. */
    stop: async (graceMs = 5_000) => {
      if (isRunning()) kill('SIGTERM');
      const force = setTimeout(() => kill('SIGKILL'), graceMs);
      await exited;
      clearTimeout(force);
    },
  };
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Runs a program to its end. */
export async function outputOf(
  command: string,
  args: readonly string[],
  { input = '', cwd, isShown = false }: { input?: string; cwd?: string | undefined; isShown?: boolean } = {},
) {
  const child = spawn(command, args, { stdio: 'pipe', cwd });
  child.stdin.on('error', () => undefined); // a program may end before it has read everything
  child.stdin.end(input);
  if (isShown) child.stderr.pipe(process.stderr, { end: false });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  const [printed, complaints, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { printed, complaints, code };
}

/** Below ip_local_port_range, so Linux doesn't use these ports for outgoing connections. */
const PORTS = { from: 18_000, to: 32_000 };
/** The program that got a port possibly has not opened it yet. */
const given = new Set<number>();

/** A TCP port on 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.from, PORTS.to);
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

export function tail(logFile: string, lines = 20): string {
  return readFileSync(logFile, 'utf8').split('\n').slice(-lines).join('\n');
}

/** Polls `probe` until it returns a value other than undefined or false. Throws the last error after `timeoutMs`. */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  { timeoutMs = 60_000, everyMs = 50 }: { readonly timeoutMs?: number; readonly everyMs?: number } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const value = await probe();
      if (value !== undefined && value !== false) return value;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`, { cause: last });
    await sleep(everyMs);
  }
}
