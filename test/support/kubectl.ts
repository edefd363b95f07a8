/** The real kubectl, run like a user runs it in a shell: commands, output, and exit code. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { stringifyJson } from '../../src/json/json.ts';
import { asOlder } from '../../scripts/run-step.ts';
import type { ControlPlane, User } from './control-plane.ts';

export const HAS_KUBECTL = ((): boolean => {
  try {
    execFileSync('kubectl', ['version', '--client'], { stdio: 'ignore' });
    return true;
  } catch {
    console.warn('skipped the tests with a real kubectl: kubectl is not on the PATH');
    return false;
  }
})();

/** A JSON manifest, which kubectl accepts as YAML; several objects become a `kind: List`. */
export type Manifest = object | readonly object[];

export interface Told {
  readonly user?: User;
  readonly namespace?: string;
  readonly stdin?: Manifest;
  readonly editor?: string;
}

/** A kubectl that talks to one API server. A command is the text after `kubectl`, with single quotes as in a shell. */
export type Kubectl = ReturnType<typeof createKubectl>;

const PATIENCE_MS = 60_000;

/** kubectl gets a separate home folder, without other configuration or a discovery cache. */
export function createKubectl(plane: ControlPlane) {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-kubectl-'));
  for (const folder of ['editors', 'tmp']) mkdirSync(join(home, folder));
  const stopping = new AbortController();
  let editors = 0;
  const editorOf = (script: string) => {
    editors += 1;
    const path = join(home, 'editors', String(editors));
    writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    return path;
  };

  const argumentsOf = (command: string, { namespace }: Told) => [
    `--cache-dir=${join(home, 'cache')}`,
    ...(namespace === undefined ? [] : ['--namespace', namespace]),
    ...wordsOf(command),
  ];
  const environmentOf = ({ user = 'admin', editor }: Told): NodeJS.ProcessEnv => ({
    PATH: process.env.PATH,
    HOME: home,
    TMPDIR: join(home, 'tmp'),
    GOGC: 'off', // kubectl ends before garbage collection pays off
    KUBECONFIG: plane.kubeconfig(user),
    ...(editor === undefined ? {} : { KUBE_EDITOR: editorOf(editor) }),
  });

  const run = (command: string, told: Told = {}) => {
    const { stdin } = told;
    const options = { env: environmentOf(told), timeout: PATIENCE_MS };
    return new Promise<{ readonly failed: boolean; readonly said: string }>((resolve) => {
      const child = execFile('kubectl', argumentsOf(command, told), options, (error, stdout, stderr) =>
        resolve({ failed: error !== null, said: asOlder(stdout + stderr) }),
      );
      child.stdin?.end(stdin === undefined ? '' : manifestText(stdin));
    });
  };

  return {
    says: async (command: string, told?: Told) => {
      const { failed, said } = await run(command, told);
      if (failed) throw new Error(`kubectl ${command} failed: ${said}`);
      return said;
    },
    refuses: async (command: string, told?: Told) => {
      const { failed, said } = await run(command, told);
      if (!failed) throw new Error(`kubectl ${command} did not fail: ${said}`);
      return said;
    },
    watches: (command: string, told: Told = {}) =>
      watching(argumentsOf(command, told), environmentOf(told), stopping.signal),
    stop: () => {
      stopping.abort();
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function watching(command: readonly string[], env: NodeJS.ProcessEnv, stopped: AbortSignal) {
  const child = spawn('kubectl', command, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  stopped.addEventListener('abort', () => child.kill());
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  const complete = () => printed.split('\n').slice(0, -1);
  return {
    /** The first `count` lines of its output, once they have arrived. @throws Error if they do not arrive */
    lines: async (count: number) => {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      while (complete().length < count) {
        if (signal.aborted) throw new Error(`kubectl ${command.join(' ')} printed only: ${printed}`);
        await sleep(20);
      }
      return complete()
        .slice(0, count)
        .map((line) => `${line}\n`)
        .join('');
    },
  };
}

const wordsOf = (command: string): readonly string[] =>
  (command.match(/(?:[^\s']|'[^']*')+/g) ?? []).map((word) => word.replaceAll("'", ''));

const manifestText = (manifest: Manifest): string =>
  stringifyJson(
    Array.isArray(manifest) ? { apiVersion: 'v1', kind: 'List', items: manifest as unknown[] } : manifest,
  );

/** The cells of a printed table, line by line; at least two spaces separate columns. */
export const cells = (said: string): readonly (readonly string[])[] =>
  said
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => line.split(/ {2,}/));
