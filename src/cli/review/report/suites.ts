/** Results of test suites as text, JSON and JUnit XML. docs/review.md documents the JSON. */
import type { SuiteResult, TestResult } from '../suite/run-suites.ts';
import type { Mismatch } from '../suite/expectation.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { resultLines, resultJson, type TableOptions } from './objects.ts';
import { printable } from '../../../json/printable.ts';
import { paint } from '../../terminal/output.ts';

export function suitesText(suites: readonly SuiteResult[], { colours, showPatch }: TableOptions): string {
  const lines = suites.flatMap(({ file, results }) => [
    printable(file),
    ...results.flatMap((result) => testLines(result, file, { colours, showPatch })),
    '',
  ]);
  const { tests, passed, failed } = summaryOf(suites);
  const counts = [
    ...(failed > 0 ? [paint({ text: `${failed} failed`, colour: 'red' }, colours)] : []),
    ...(passed > 0 ? [paint({ text: `${passed} passed`, colour: 'green' }, colours)] : []),
  ];
  return [...lines, `${tests} ${tests === 1 ? 'test' : 'tests'}: ${counts.join(', ')}`, ''].join('\n');
}

function testLines(
  { test, reviewed, mismatches }: TestResult,
  file: string,
  { colours, showPatch }: TableOptions,
): readonly string[] {
  const details = showPatch
    ? resultLines(reviewed.result, true).map((line) => `          ${printable(line)}`)
    : [];
  const [mark, place] =
    mismatches.length === 0
      ? [paint({ text: 'passed', colour: 'green' }, colours), '']
      : [paint({ text: 'FAILED', colour: 'red' }, colours), ` (${file}:${test.line})`];
  return [
    `  ${mark}  ${printable(`${test.name}${place}`)}`,
    ...mismatches.flatMap(({ what, expected, received }) => [
      `          ${printable(what)}`,
      `            expected: ${printable(expected)}`,
      `            received: ${printable(received)}`,
    ]),
    ...details,
  ];
}

function summaryOf(suites: readonly SuiteResult[]) {
  const results = suites.flatMap((suite) => suite.results);
  const failed = results.filter(({ mismatches }) => mismatches.length > 0).length;
  return { suites: suites.length, tests: results.length, passed: results.length - failed, failed };
}

export function suitesJson(suites: readonly SuiteResult[], notes: readonly string[]): object {
  return {
    kind: 'SuiteReview',
    summary: summaryOf(suites),
    notes,
    suites: suites.map(({ file, results }) => ({
      file,
      tests: results.map(({ test: { name, line }, reviewed, mismatches }) => ({
        name,
        line,
        passed: mismatches.length === 0,
        failures: mismatches,
        result: resultJson(reviewed),
      })),
    })),
  };
}

export function suitesJunit(suites: readonly SuiteResult[]): readonly JunitSuite[] {
  return suites.map(({ file, results }) => ({
    name: file,
    cases: results.map(({ test, reviewed, mismatches }): JunitCase => {
      const [first] = mismatches;
      return {
        name: test.name,
        className: file,
        file,
        output: resultLines(reviewed.result, false),
        ...(first === undefined
          ? {}
          : {
              failure: {
                message: describe(first),
                details: [...mismatches.map(describe), `at ${file}:${test.line}`].join('\n'),
              },
            }),
      };
    }),
  }));
}

const describe = ({ what, expected, received }: Mismatch): string =>
  `${what}: expected ${expected}, received ${received}`;
