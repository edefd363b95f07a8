/** Reviewed objects and test suites as text, JSON and JUnit XML. docs/review.md documents the JSON. */
import { counted } from '../../../json/counted.ts';
import { stringifyJson } from '../../../json/json.ts';
import { describePlace } from '../input.ts';
import { describeIdentity, type ReviewResult, type Verdict } from '../review-result.ts';
import type { ReviewedObject } from '../reviewer.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { formatTable, paint, type Row } from '../../terminal/output.ts';
import type { SuiteResult } from '../suite/suite.ts';
import { printable } from '../../../json/printable.ts';

interface TableOptions {
  readonly colours: boolean;
  readonly showPatch: boolean;
}

const VERDICTS = ['denied', 'warned', 'allowed', 'unchecked'] as const;
const TONES = { denied: 'bad', warned: 'warn', allowed: 'good', unchecked: 'rest' } as const;

export function objectsTable(reviewed: readonly ReviewedObject[], options: TableOptions): string {
  const rows = reviewed.map(({ identity, result }): Row => {
    const { verdict, policies, handlers } = result;
    return {
      cells: [
        describeIdentity(identity),
        { text: verdict, tone: TONES[verdict] },
        [...policies, ...handlers.map((name) => `${name} (handler)`)].join(', '),
      ],
      lines: resultLines(result, options.showPatch),
    };
  });
  const table = formatTable(['OBJECT', 'DECISION', 'POLICIES', 'MESSAGE'], rows, options.colours);
  return `${table}\n\n${totals(reviewed, options.colours)}\n`;
}

function resultLines(
  { messages, warnings, auditAnnotations, patch }: ReviewResult,
  showPatch: boolean,
): readonly string[] {
  const { violations } = auditAnnotations;
  return [
    ...messages,
    ...warnings.map((text) => `warning: ${text}`),
    ...(violations === undefined ? [] : [`audit: ${violations}`]),
    ...(showPatch ? patch.map((operation) => `patch: ${stringifyJson(operation)}`) : []),
  ];
}

function totals(reviewed: readonly ReviewedObject[], colours: boolean): string {
  const parts = VERDICTS.map((verdict) => ({ verdict, count: countOf(reviewed, verdict) }))
    .filter(({ count }) => count > 0)
    .map(({ verdict, count }) => paint({ text: `${count} ${verdict}`, tone: TONES[verdict] }, colours));
  return `${counted(reviewed.length, 'object')}: ${parts.join(', ')}`;
}

const countOf = (reviewed: readonly ReviewedObject[], verdict: Verdict): number =>
  reviewed.filter(({ result }) => result.verdict === verdict).length;

export function objectsJson(reviewed: readonly ReviewedObject[], notes: readonly string[]): object {
  const counts = VERDICTS.map((verdict) => [verdict, countOf(reviewed, verdict)] as const);
  const summary = { objects: reviewed.length, ...Object.fromEntries<number>(counts) };
  return { kind: 'Review', summary, notes, results: reviewed.map(resultJson) };
}

function resultJson({ identity, place, operation, result }: ReviewedObject): object {
  const { verdict, policies, handlers, warnings, auditAnnotations, patch } = result;
  const { messages, refusal, causes } = result;
  return {
    object: identity,
    source: place,
    operation,
    decision: verdict,
    policies,
    handlers,
    ...(refusal === undefined ? {} : { message: messages.join('; '), ...refusal, causes }),
    warnings,
    auditAnnotations,
    patch,
  };
}

export function objectsJunit(reviewed: readonly ReviewedObject[]): readonly JunitSuite[] {
  return [{ name: 'gatehouse review', cases: reviewed.map(toCase) }];
}

function toCase({ identity, place, result }: ReviewedObject): JunitCase {
  const { verdict, messages, warnings } = result;
  const details = [...messages, `at ${describePlace(place)}`].join('\n');
  return {
    name: describeIdentity(identity),
    className: place.file,
    file: place.file,
    output: warnings.map((text) => `warning: ${text}`),
    ...(verdict === 'denied' ? { failure: { message: messages.join('; '), details } } : {}),
    ...(verdict === 'unchecked' ? { skipped: 'no policy and no handler applies' } : {}),
  };
}

export function suitesText(suites: readonly SuiteResult[], { colours, showPatch }: TableOptions): string {
  const lines = suites.flatMap(({ file, results }) => [
    printable(file),
    ...results.flatMap((result) => testLines(result, file, { colours, showPatch })),
    '',
  ]);
  const { tests, passed, failed } = summaryOf(suites);
  const counts = [
    ...(failed > 0 ? [paint({ text: `${failed} failed`, tone: 'bad' }, colours)] : []),
    ...(passed > 0 ? [paint({ text: `${passed} passed`, tone: 'good' }, colours)] : []),
  ];
  return [...lines, `${counted(tests, 'test')}: ${counts.join(', ')}`, ''].join('\n');
}

function testLines(
  { test, reviewed, mismatches }: SuiteResult['results'][number],
  file: string,
  { colours, showPatch }: TableOptions,
): readonly string[] {
  const details = showPatch
    ? resultLines(reviewed.result, true).map((line) => `          ${printable(line)}`)
    : [];
  const [mark, place] =
    mismatches.length === 0
      ? [paint({ text: 'passed', tone: 'good' }, colours), '']
      : [paint({ text: 'FAILED', tone: 'bad' }, colours), ` (${file}:${test.line})`];
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
      const [message, ...further] = mismatches.map(
        ({ what, expected, received }) => `${what}: expected ${expected}, received ${received}`,
      );
      const details = [message, ...further, `at ${file}:${test.line}`].join('\n');
      return {
        name: test.name,
        className: file,
        file,
        output: resultLines(reviewed.result, false),
        ...(message === undefined ? {} : { failure: { message, details } }),
      };
    }),
  }));
}
