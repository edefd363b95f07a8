/** Recordings of what Kubernetes answers to expressions, in test/data. */
import { readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

import { corpus as recorded } from '../../fuzz/seeds.ts';
import {
  isSameVerdict,
  readMatrix,
  taggedJson,
  type Answer,
  type MatrixCase,
  type Tagged,
} from './matrix.ts';
import { programFolder } from '../go-programs.ts';
import { outputOf } from '../processes.ts';

interface Question {
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
    const input = questions.map((one) => `${JSON.stringify(one)}\n`).join('');
    const { printed, complaints, code } = await outputOf(program, [], { input });
    if (code !== 0) throw new Error(`the oracle of the ${version} Kubernetes failed: ${complaints}`);
    const lines = printed.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line) as OracleAnswer); // our own program
  };
}

export const MATRIX = new URL('../../data/cel-matrix-1.37.jsonl', import.meta.url);
export const CORPUS = new URL('../../data/cel-corpus-1.37.json', import.meta.url);

const questionOf = ({ expression, variables, bindings, checkOnly }: MatrixCase): Question => ({
  expression,
  ...(variables && { variables }),
  ...(bindings && { bindings }),
  ...(checkOnly && { checkOnly }),
});

export const askAbout = (oracle: Oracle, cases: readonly MatrixCase[]): Promise<readonly OracleAnswer[]> =>
  oracle(cases.map(questionOf));

/** @param oldest asked for the answers that differ; undefined: those recorded before stay */
async function recordedMatrix(newest: Oracle, oldest: Oracle | undefined): Promise<string> {
  const cases = readMatrix(MATRIX);
  const answers = await askAbout(newest, cases);
  const older = oldest && (await askAbout(oldest, cases));
  const lines = cases.map(({ oldest: before, ...one }, index) => {
    const kubernetes = answers[index] ?? {};
    const other = older === undefined ? before : older[index];
    const differs = other !== undefined && !isSameVerdict(other, kubernetes);
    return JSON.stringify({ ...one, kubernetes, ...(differs ? { oldest: other } : {}) });
  });
  return `${lines.join('\n')}\n`;
}

interface Corpus {
  readonly cases: readonly { readonly expression: string }[];
}

export async function recordedCorpus(newest: Oracle): Promise<string> {
  const corpus = JSON.parse(
    readFileSync(CORPUS, 'utf8'),
    (_key, value: unknown, context?: { source: string }) =>
      typeof value === 'number' && context !== undefined ? JSON.rawJSON(context.source) : value,
  ) as Corpus; // our own file
  const values = Object.entries(recorded.bindings);
  const variables = Object.fromEntries(values.map(([name]) => [name, 'dyn']));
  const bindings = Object.fromEntries(values.map(([name, value]) => [name, taggedJson(value)]));
  const answers = await newest(
    corpus.cases.map(({ expression }) => ({ expression, variables, bindings, result: 'bool' })),
  );
  const cases = corpus.cases.map(({ expression }, index) => ({
    expression,
    ...shortly(answers[index] ?? {}),
  }));
  return `${JSON.stringify({ ...corpus, cases }, undefined, 1)}\n`;
}

/** The first line of a compile error: the others show the expression. */
function shortly({ compileError, error, result }: OracleAnswer) {
  if (compileError !== undefined) return { compileError: compileError.split('\n', 1)[0] };
  return error === undefined ? { result: result?.bool } : { error };
}

export async function record(newest: Oracle, oldest: Oracle | undefined): Promise<void> {
  writeFileSync(MATRIX, await recordedMatrix(newest, oldest));
  writeFileSync(CORPUS, await recordedCorpus(newest));
}
