/** The real kubectl, as a person at a shell has it: what is typed, what is said, and how it ends. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { ControlPlane, User } from './control-plane.ts';

/** Whether this machine has kubectl; says so in the log of the test run where it has not. */
export const HAS_KUBECTL = ((): boolean => {
  try {
    execFileSync('kubectl', ['version', '--client'], { stdio: 'ignore' });
    return true;
  } catch {
    console.warn('skipped: what kubectl makes of the sandbox, for there is no kubectl on the PATH');
    return false;
  }
})();

/** A JSON manifest, which kubectl takes for YAML; several objects make a `kind: List`. */
export type Manifest = object | readonly object[];

export interface Told {
  /** Whose kubeconfig; default: admin. */
  readonly user?: User;
  readonly namespace?: string;
  /** What `-f -` reads. */
  readonly stdin?: Manifest;
  /** A shell script in the place of the person's editor; `$1` is the file. */
  readonly editor?: string;
}

/** A kubectl that talks to one API server. */
export interface Kubectl {
  /** All that a command says, warnings too. @throws Error when it fails */
  readonly says: (args: readonly string[], told?: Told) => Promise<string>;
  /** The same for a command that must fail. @throws Error when it does not */
  readonly refuses: (args: readonly string[], told?: Told) => Promise<string>;
  /** A command that goes on until it is stopped. */
  readonly watches: (args: readonly string[], told?: Told) => Watching;
  /** The path of a file with this in it. */
  readonly file: (manifest: Manifest) => string;
  readonly remove: () => void;
}

/** A kubectl that watches. */
export interface Watching {
  /** The first so many lines that it prints, when they are there. @throws Error when they do not come */
  readonly lines: (count: number) => Promise<string>;
  /** Resolves when the API server has begun to answer its watch. */
  readonly established: () => Promise<void>;
  readonly stop: () => void;
}

/** How long a watch may take to print what it is to print: milliseconds. */
const WATCH_PATIENCE_MS = 20_000;

/** With a home of its own, so that nobody's configuration and discovery cache come in. */
export function createKubectl(plane: ControlPlane): Kubectl {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-kubectl-'));
  mkdirSync(join(home, 'files'));
  let files = 0;
  const write = (name: string, text: string, mode: number) => {
    files += 1;
    const path = join(home, 'files', `${files}-${name}`);
    writeFileSync(path, text, { mode });
    return path;
  };

  const commandOf = (args: readonly string[], { user = 'admin', namespace, editor }: Told) => {
    const editing =
      editor === undefined ? {} : { KUBE_EDITOR: write('editor', `#!/bin/sh\n${editor}\n`, 0o700) };
    const where = namespace === undefined ? [] : ['--namespace', namespace];
    return {
      env: { PATH: process.env.PATH, HOME: home, KUBECONFIG: plane.kubeconfig(user), ...editing },
      command: [`--cache-dir=${join(home, 'cache')}`, ...where, ...args],
    };
  };

  const run = (args: readonly string[], told: Told = {}) => {
    const { env, command } = commandOf(args, told);
    const { stdin } = told;
    return new Promise<Ended>((resolve) => {
      const child = execFile('kubectl', command, { env, timeout: 30_000 }, (error, stdout, stderr) => {
        resolve({ failed: error !== null, said: stdout + stderr });
      });
      child.stdin?.end(stdin === undefined ? '' : manifestText(stdin));
    });
  };

  return {
    says: async (args, told) => {
      const { failed, said } = await run(args, told);
      if (failed) throw new Error(`kubectl ${args.join(' ')} failed: ${said}`);
      return said;
    },
    refuses: async (args, told) => {
      const { failed, said } = await run(args, told);
      if (!failed) throw new Error(`kubectl ${args.join(' ')} did not fail: ${said}`);
      return said;
    },
    watches: (args, told = {}) => {
      const { env, command } = commandOf(args, told);
      return watching(command, env);
    },
    file: (manifest) => write('manifest.json', manifestText(manifest), 0o600),
    remove: () => {
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function watching(command: readonly string[], env: NodeJS.ProcessEnv): Watching {
  // At this level kubectl says on its standard error which answers it got.
  const child = spawn('kubectl', [...command, '-v=8'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const until = async (holds: () => boolean): Promise<void> => {
    const signal = AbortSignal.timeout(WATCH_PATIENCE_MS);
    while (!holds()) {
      if (signal.aborted) throw new Error(`kubectl ${command.join(' ')} printed only: ${printed}`);
      await sleep(20);
    }
  };
  const complete = () => printed.split('\n').slice(0, -1);
  return {
    lines: async (count) => {
      await until(() => complete().length >= count);
      return complete()
        .slice(0, count)
        .map((line) => `${line}\n`)
        .join('');
    },
    established: () => until(() => /GET \S+[?&]watch=true[\s\S]*Response Status: 200/.test(log)),
    stop: () => child.kill(),
  };
}

interface Ended {
  readonly failed: boolean;
  readonly said: string;
}

const manifestText = (manifest: Manifest): string =>
  JSON.stringify(
    Array.isArray(manifest) ? { apiVersion: 'v1', kind: 'List', items: manifest as unknown[] } : manifest,
  );

/** The cells of a printed table, line by line; columns stand at least two spaces apart. */
export const cells = (said: string): readonly (readonly string[])[] =>
  linesOf(said).map((line) => line.split(/ {2,}/));

/** The lines of what was said, without what pads them. */
const linesOf = (said: string): readonly string[] =>
  said
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
