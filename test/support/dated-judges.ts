/** TLS stacks that judge served chains by the clock of a given day. */
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { opensslTrusts } from './trust-verdicts.ts';

/** A client with the bundle meets a server with the chain. */
export interface Meeting {
  readonly chain: string;
  readonly privateKey: string;
  readonly bundle: string;
  readonly host: string;
}

const SOURCES = join(import.meta.dirname, 'dated-judges');

/** OpenSSL, Go and Java take the time as a parameter. Node and Python need a library that changes their clock. */
const [FAKETIME] = globSync('/usr/lib/*/faketime/libfaketime.so.1');

const runs = (command: string, ...args: readonly string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0;

type Command = (folder: string, at: Date) => readonly [string, readonly string[]];

/** Each returns `ok`, or the reason why the client refuses, for each meeting. Stacks that are not installed are named. */
export function datedJudges() {
  const build = mkdtempSync(join(tmpdir(), 'gatehouse-judges-'));
  const compiled = (compiler: string, args: readonly string[], command: Command) => {
    if (!runs(compiler, compiler === 'go' ? 'version' : '-version')) return compiler;
    execFileSync(compiler, args, { cwd: SOURCES, env: { ...process.env, GO111MODULE: 'off' } });
    return command;
  };
  const shifted = (program: string, file: string) => {
    if (FAKETIME === undefined) return 'the package faketime';
    return runs(program, '--version')
      ? (((folder) => [program, [join(SOURCES, file), folder]]) satisfies Command)
      : program;
  };
  const go = join(build, 'judge');
  const commands: Readonly<Record<string, Command | string>> = {
    go: compiled('go', ['build', '-o', go, 'judge.go'], (folder, at) => [go, [folder, isoOf(at)]]),
    java: compiled('javac', ['-d', build, 'Judge.java'], (folder, at) => [
      'java',
      ['-cp', build, 'Judge', folder, isoOf(at)],
    ]),
    python: shifted('python3', 'judge.py'),
    node: shifted(process.execPath, 'judge-node.ts'),
  };
  const openssl = (meetings: readonly Meeting[], at: Date) =>
    meetings.map((one) => (opensslTrusts(one, one.bundle, one.host, at) ? 'ok' : 'refused'));
  const judges = Object.entries(commands).flatMap(([name, command]) =>
    typeof command === 'string'
      ? []
      : [{ name, judge: (meetings: readonly Meeting[], at: Date) => inFolder(meetings, at, command) }],
  );
  return {
    judges: runs('openssl', 'version') ? [{ name: 'openssl', judge: openssl }, ...judges] : judges,
    missing: Object.entries(commands).flatMap(([name, command]) =>
      typeof command === 'string' ? [`${name} (${command} is not installed)`] : [],
    ),
    stop: () => rmSync(build, { recursive: true }),
  };
}

const isoOf = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`;

function inFolder(meetings: readonly Meeting[], at: Date, command: Command): readonly string[] {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-meetings-'));
  try {
    writeFileSync(join(folder, 'hosts'), meetings.map(({ host }) => host).join('\n'));
    for (const [index, { chain, privateKey, bundle }] of meetings.entries()) {
      writeFileSync(join(folder, `${index}.chain.pem`), chain);
      writeFileSync(join(folder, `${index}.key.pem`), privateKey);
      writeFileSync(join(folder, `${index}.bundle.pem`), bundle);
    }
    const [program, args] = command(folder, at);
    const clock = {
      LD_PRELOAD: FAKETIME,
      FAKETIME: `@${isoOf(at).replace('T', ' ').slice(0, 19)}`,
      TZ: 'UTC',
    };
    const needsClock = args.some((arg) => /\.(py|ts)$/.test(arg));
    const env = needsClock ? { ...process.env, ...clock } : process.env;
    return execFileSync(program, args, { encoding: 'utf8', env }).trim().split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
