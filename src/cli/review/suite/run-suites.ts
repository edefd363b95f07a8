/** Runs test suites. */
import { dirname, resolve } from 'node:path';
import { readFileSync } from 'node:fs';

import type { LoadedHandler } from '../../../runtime/handlers/load-handlers.ts';
import { objectsOf, parseDocuments } from '../documents.ts';
import { userOf } from '../flags.ts';
import { filesAt, readObjects, refuse, type ReadOptions } from '../input.ts';
import type { ReviewedObject } from '../review-result.ts';
import { createReviewer } from '../reviewer.ts';
import type { ReviewContext } from '../stage.ts';
import { checkExpectation, type Mismatch } from './expectation.ts';
import { parseSuite, type Suite, type SuiteTest } from './suite.ts';

export interface TestResult {
  readonly test: Pick<SuiteTest, 'name' | 'line'>;
  readonly reviewed: ReviewedObject;
  /** Empty if the test passed. */
  readonly mismatches: readonly Mismatch[];
}

export interface SuiteResult {
  readonly file: string;
  readonly results: readonly TestResult[];
  readonly notes: readonly string[];
}

interface SuitesContext extends Omit<ReviewContext, 'handlers'> {
  /** Throws InvalidHandlers. Undefined: the caller does not allow suites to name code. */
  readonly openHandlers: OpenHandlers | undefined;
}

type OpenHandlers = (source: string | undefined, from: string) => Promise<readonly LoadedHandler[]>;

/** @throws UnusableInput and InvalidHandlers when a suite cannot run */
export async function runSuites(
  paths: readonly string[],
  options: ReadOptions,
  context: SuitesContext,
): Promise<readonly SuiteResult[]> {
  const suites = readSuites(paths, options, context.openHandlers !== undefined);
  const results: SuiteResult[] = [];
  for (const suite of suites) results.push(await runSuite(suite, options, context));
  return results;
}

function readSuites(
  paths: readonly string[],
  options: ReadOptions,
  allowHandlers: boolean,
): readonly Suite[] {
  const listed = paths.map((path) => ({ path, ...filesAt(path, options) }));
  const problems = listed.flatMap((each) => each.problems);
  const suites: Suite[] = [];
  for (const { path, found: files } of listed) {
    const isFolder = files[0] !== path;
    const texts = files.map((file) => ({ file, text: readFileSync(file === '-' ? 0 : file, 'utf8') }));
    const tests = isFolder ? texts.filter(({ file, text }) => !isFixture(text, file)) : texts;
    if (texts.length > 0 && tests.length === 0)
      problems.push(`${path}: the folder has no test suite, only objects`);
    for (const { file, text } of tests) {
      const readFile = (name: string) => readObjects([name], { ...options, recursive: false });
      const parsed = parseSuite(text, file, readFile, allowHandlers);
      problems.push(...parsed.problems);
      suites.push(parsed.suite);
    }
  }
  refuse(problems);
  return suites;
}

/** A folder of suites may also contain objects. Any other file is treated as a suite, so that mistakes are reported. */
function isFixture(text: string, file: string): boolean {
  const { found, problems } = parseDocuments(text, file);
  return (
    problems.length === 0 && found.length > 0 && found.every((each) => objectsOf(each).problems.length === 0)
  );
}

async function runSuite(
  { file, policies, crds, existing, handlers, tests, namespace = 'default' }: Suite,
  options: ReadOptions,
  { openHandlers, ...context }: SuitesContext,
): Promise<SuiteResult> {
  const opened = (await openHandlers?.(handlers, resolve(dirname(file)))) ?? [];
  const input = {
    namespace,
    existing: readObjects([...crds, ...policies, ...existing], options),
    reviewed: tests.flatMap(({ object, old }) => (old === undefined ? [object] : [object, old])),
  };
  const { review, notes, isEmpty } = createReviewer(input, { ...context, handlers: opened });
  refuse(isEmpty ? [`${file}: no AdmissionPolicy and no handler to test: list them under policies`] : []);
  const results: TestResult[] = [];
  for (const test of tests) {
    const { object, old, operation } = test;
    const user = userOf(test.user, test.groups);
    const [reviewed] = await review([{ ...object, old: old?.object, operation, user }]);
    if (reviewed === undefined) throw new Error('a review without a result');
    results.push({ test, reviewed, mismatches: checkExpectation(test.expect, reviewed.result) });
  }
  return { file, results, notes: notes.map((note) => `${file}: ${note}`) };
}
