/** Kubernetes' own CEL: test/go/cel-oracle, built with the packages of one version. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { programFolder } from '../go-programs.ts';
import type { Answer, Tagged } from './matrix.ts';

export interface Question {
  readonly expression?: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly bindings?: Readonly<Record<string, Tagged>>;
  readonly checkOnly?: boolean;
  readonly result?: string;
  readonly schema?: unknown;
  readonly object?: unknown;
  readonly oldObject?: unknown;
}

export interface OracleAnswer extends Answer {
  readonly causes?: readonly { readonly field: string; readonly type: string; readonly detail: string }[];
}

export type Oracle = (questions: readonly Question[]) => Promise<readonly OracleAnswer[]>;

/** Why the oracle cannot be built; undefined: it can. */
export function oracleProblem(): string | undefined {
  try {
    execFileSync('go', ['version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'Go is not installed: Kubernetes itself cannot be asked';
  }
}

/** Without Go's cache, this takes minutes. @throws Error with what Go prints if it cannot build the program */
export async function buildOracle(version: 'newest' | 'oldest'): Promise<Oracle> {
  const program = join(await programFolder(`cel-${version}`), 'cel-oracle');
  return async (questions) => {
    const child = spawn(program, { stdio: 'pipe' });
    child.stdin.end(questions.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const [printed, complaints, [code]]: readonly [string, string, readonly unknown[]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    if (code !== 0) throw new Error(`the oracle of the ${version} Kubernetes failed: ${complaints}`);
    const lines = printed.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as OracleAnswer); // our own program
  };
}
