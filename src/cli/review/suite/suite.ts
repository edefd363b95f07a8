/** Parses and runs test suites. docs/review.md documents the format. */
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { readFileSync } from 'node:fs';

import { messageOf } from '../../../json/abort.ts';
import { compilePattern } from '../../../cel/regular-expression.ts';
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  stringifyJson,
  textIn,
  type JsonObject,
  type JsonValue,
} from '../../../json/json.ts';
import {
  describePlace,
  objectsOf,
  type PlacedObject,
  parseDocuments,
  filesAt,
  readObjects,
  refuse,
  type ReadOptions,
} from '../input.ts';
import {
  jsonOfYaml,
  parseYamlDocuments,
  createField,
  readMap,
  readObject,
  readText,
  readTexts,
  readWord,
  type YamlField,
} from '../yaml.ts';
import type { LoadedHandler } from '../../../runtime/handlers/load-handlers.ts';
import { userOf } from '../flags.ts';
import type { ReviewResult, Verdict } from '../review-result.ts';
import { createReviewer } from '../reviewer.ts';
import type { ReviewContext } from '../stage.ts';

const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE'] as const;

type Suite = NonNullable<ReturnType<typeof suiteOf>>;

type ReadFile = (path: string) => readonly PlacedObject[];

const SUITE_KEYS = ['policies', 'crds', 'existing', 'handlers', 'namespace', 'tests'];
const TEST_KEYS = ['name', 'object', 'objectFrom', 'old', 'oldFrom', 'user', 'groups', 'operation', 'expect'];

/** @param allowHandlers whether the suite may name handlers: code, which runs with the permissions of the caller */
export function parseSuite(text: string, file: string, readFile: ReadFile, allowHandlers: boolean) {
  const problems: string[] = [];
  const report = (line: number, path: string, message: string) => {
    problems.push(`${file}:${line}: ${path === '' ? '' : `${path}: `}${message}`);
  };
  const { documents, lineAt } = parseYamlDocuments(text);
  const [document, second] = documents;
  for (const { problems: flaws } of documents) for (const flaw of flaws) report(flaw.line, '', flaw.message);
  if (second !== undefined)
    report(second.line, '', 'a suite must be a single document: move the others to separate files');
  if (document === undefined)
    report(1, '', `the suite is empty: it must be a map of ${SUITE_KEYS.join(', ')}`);
  if (document === undefined || problems.length > 0) return { suite: undefined, problems };
  const { node } = document;
  const field = createField({ node, lineAt, report }, jsonOfYaml(node.toJS()));
  const handlers = field.at('handlers');
  if (handlers.value !== undefined && !allowHandlers)
    handlers.report('handlers are code: read it, then pass --allow-handlers to run it');
  return { suite: suiteOf(field, file, readFile), problems };
}

function suiteOf(field: YamlField, file: string, readFile: ReadFile) {
  if (readMap(field, SUITE_KEYS) === undefined) return undefined;
  const relative = (path: string) => (isAbsolute(path) ? path : join(dirname(file), path));
  const paths = (key: string) => (readTexts(field.at(key)) ?? []).map(relative);
  const tests = field.at('tests');
  if (!isJsonArray(tests.value) || tests.value.length === 0) tests.report('must be a list of tests');
  const count = isJsonArray(tests.value) ? tests.value.length : 0;
  return {
    file,
    policies: paths('policies'),
    crds: paths('crds'),
    existing: paths('existing'),
    handlers: readText(field.at('handlers')),
    namespace: readText(field.at('namespace')),
    tests: Array.from({ length: count }, (_, index) =>
      testOf(tests.at(index), file, (path) => readFile(relative(path))),
    ).filter((test) => test !== undefined),
  };
}

function testOf(field: YamlField, file: string, read: ReadFile) {
  if (readMap(field, TEST_KEYS) === undefined) return undefined;
  const name = readText(field.at('name'));
  if (name === undefined || name === '') field.report('a test needs a name');
  const object = sourceOf(field, 'object', file, read);
  if (['object', 'objectFrom'].every((key) => field.at(key).value === undefined))
    field.report('a test needs an object, or objectFrom: <file>#<name>');
  const old = sourceOf(field, 'old', file, read);
  const operation = readWord(field.at('operation'), OPERATIONS) ?? (old === undefined ? 'CREATE' : 'UPDATE');
  if (operation === 'UPDATE' && old === undefined) field.report('an UPDATE needs old: the current object');
  if (operation !== 'UPDATE' && old !== undefined)
    field.at('operation').report(`old is not allowed for ${operation}: omit it`);
  const expect = readExpectation(field.at('expect'));
  const groups = readTexts(field.at('groups')) ?? [];
  const user = readText(field.at('user'));
  if (name === undefined || object === undefined || expect === undefined) return undefined;
  return { name, line: field.line, object, old, user, groups, operation, expect };
}

function sourceOf(
  field: YamlField,
  key: 'object' | 'old',
  file: string,
  read: ReadFile,
): PlacedObject | undefined {
  const written = field.at(key);
  const named = field.at(`${key}From`);
  if (written.value !== undefined && named.value !== undefined)
    named.report(`${key} and ${key}From exclude each other: omit one of them`);
  if (written.value === undefined) {
    const source = readText(named);
    return source === undefined ? undefined : namedObject(source, named, read);
  }
  const { found, problems } = objectsOf({ place: { file, line: written.line }, value: written.value });
  const [problem = 'must be a single object'] = problems;
  if (problems.length > 0 || found.length !== 1)
    written.report(problem.startsWith(file) ? problem.slice(problem.indexOf(': ') + 2) : problem);
  return found[0];
}

/** `file#name`, `file#Kind/name`, or a file with a single object. */
function namedObject(source: string, field: YamlField, read: ReadFile): PlacedObject | undefined {
  const at = source.lastIndexOf('#');
  const file = at === -1 ? source : source.slice(0, at);
  const wanted = at === -1 ? undefined : source.slice(at + 1);
  let all: readonly PlacedObject[];
  try {
    all = read(file);
  } catch (error) {
    field.report(messageOf(error));
    return undefined;
  }
  const found = all.filter(({ object }) => wanted === undefined || namesOf(object).includes(wanted));
  const [only, other] = found;
  if (only !== undefined && other === undefined) return only;
  const listed = (only === undefined ? all : found).map(
    ({ object, place }) => `${namesOf(object)[1] ?? ''} (${describePlace(place)})`,
  );
  field.report(
    only === undefined
      ? `${wanted ?? 'object'} not found in ${file}, only ${listed.join(', ')}`
      : `several objects match: use ${file}#<kind>/<name> with one of ${listed.join(', ')}`,
  );
  return undefined;
}

function namesOf(object: JsonObject): readonly string[] {
  const name = textIn(object, 'metadata', 'name');
  return [name, `${textIn(object, 'kind')}/${name}`];
}

export type SuiteResult = Awaited<ReturnType<typeof runSuite>>;

interface SuitesContext extends Omit<ReviewContext, 'handlers'> {
  readonly openHandlers:
    ((source: string | undefined, from: string) => Promise<readonly LoadedHandler[]>) | undefined;
}

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
      problems.push(`${path}: the folder contains only objects: add a test suite`);
    for (const { file, text } of tests) {
      const readFile = (name: string) => readObjects([name], { ...options, recursive: false });
      const parsed = parseSuite(text, file, readFile, allowHandlers);
      problems.push(...parsed.problems);
      if (parsed.suite !== undefined) suites.push(parsed.suite);
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
) {
  const opened = (await openHandlers?.(handlers, resolve(dirname(file)))) ?? [];
  const input = {
    namespace,
    existing: readObjects([...crds, ...policies, ...existing], options),
    reviewed: tests.flatMap(({ object, old }) => (old === undefined ? [object] : [object, old])),
  };
  const { review, notes, isEmpty } = createReviewer(input, { ...context, handlers: opened });
  refuse(isEmpty ? [`${file}: no AdmissionPolicy and no handler to test: list them under policies`] : []);
  const results = [];
  for (const test of tests) {
    const { object, old, operation } = test;
    const user = userOf(test.user, test.groups);
    const [reviewed] = await review([{ ...object, old: old?.object, operation, user }]);
    if (reviewed === undefined) throw new Error('a review without a result');
    results.push({ test, reviewed, mismatches: checkExpectation(test.expect, reviewed.result) });
  }
  return { file, results, notes: notes.map((note) => `${file}: ${note}`) };
}

const DECISIONS = ['allow', 'warn', 'deny', 'unchecked'] as const;

type ReadExpectation = NonNullable<ReturnType<typeof readExpectation>>;
export type Expectation = Pick<ReadExpectation, 'decision'> & Partial<ReadExpectation>;

const DENIAL_KEYS = ['message', 'messageMatches', 'fields'];
const EXPECT_KEYS = ['decision', ...DENIAL_KEYS, 'warnings', 'object', 'auditAnnotations'];

function readExpectation(field: YamlField) {
  if (readMap(field, EXPECT_KEYS) === undefined) {
    if (field.value === undefined) field.report('a test needs expect: the expected result');
    return undefined;
  }
  const decision = readWord(field.at('decision'), DECISIONS);
  if (field.at('decision').value === undefined)
    field.report(`decision is required: one of ${DECISIONS.join(', ')}`);
  const details = {
    message: readText(field.at('message')),
    messageMatches: patternOf(field.at('messageMatches')),
    fields: readTexts(field.at('fields')),
    /** A part of each warning, in any order; empty: no warnings. */
    warnings: readTexts(field.at('warnings')),
    /** A part of the object after mutation; null: the field is absent. */
    object: readObject(field.at('object')),
    auditAnnotations: annotationsOf(field.at('auditAnnotations')),
  };
  if (decision === undefined) return undefined;
  for (const [key, value] of Object.entries(details)) {
    if (value !== undefined && decision !== 'deny' && DENIAL_KEYS.includes(key))
      field.at(key).report('allowed only with decision: deny');
  }
  if (details.object !== undefined && decision === 'deny')
    field.at('object').report('not allowed with decision: deny');
  return { decision, ...details };
}

function patternOf(field: YamlField) {
  const text = readText(field);
  if (text === undefined) return undefined;
  try {
    const pattern = compilePattern(text);
    return { text, test: (message: string) => pattern.test(message) };
  } catch (error) {
    field.report(messageOf(error));
    return undefined;
  }
}

function annotationsOf(field: YamlField): Readonly<Record<string, string | null>> | undefined {
  const given = readObject(field);
  if (given === undefined) return undefined;
  const entries = Object.entries(given).filter((entry): entry is [string, string | null] => {
    const [key, value] = entry;
    const isValid = typeof value === 'string' || value === null;
    if (!isValid) field.at(key).report('must be a string, or null if the annotation must be absent');
    return isValid;
  });
  return Object.fromEntries(entries);
}

interface Mismatch {
  readonly what: string;
  readonly expected: string;
  readonly received: string;
}

const DECISION: Readonly<Record<Verdict, (typeof DECISIONS)[number]>> = {
  allowed: 'allow',
  warned: 'warn',
  denied: 'deny',
  unchecked: 'unchecked',
};

const unless = (
  holds: boolean,
  what: string,
  expected: string,
  received: string | undefined,
): readonly Mismatch[] => (holds ? [] : [{ what, expected, received: received ?? 'none' }]);

export function checkExpectation(expect: Expectation, result: ReviewResult): readonly Mismatch[] {
  const decision = DECISION[result.verdict];
  if (decision !== expect.decision)
    return [{ what: 'decision', expected: expect.decision, received: describeDecision(result) }];
  const text = result.messages.join('; ');
  const { message = '', messageMatches, fields, warnings, object, auditAnnotations = {} } = expect;
  return [
    ...unless(text.includes(message), 'message', `… ${message} …`, text),
    ...unless(messageMatches?.test(text) !== false, 'messageMatches', messageMatches?.text ?? '', text),
    ...(fields === undefined ? [] : fieldMismatches(fields, result)),
    ...(warnings === undefined ? [] : warningMismatches(warnings, result)),
    ...(object === undefined ? [] : valueMismatches(object, result.object, 'object')),
    ...Object.entries(auditAnnotations).flatMap(([key, wanted]) => {
      const received = ownValue(result.auditAnnotations, key) as string | undefined; // annotations are strings
      const holds = wanted === null ? received === undefined : received?.includes(wanted) === true;
      return unless(holds, `auditAnnotations.${key}`, wanted === null ? 'none' : `… ${wanted} …`, received);
    }),
  ];
}

function describeDecision({ verdict, messages, warnings }: ReviewResult): string {
  return {
    denied: `deny: ${messages.join('; ')}`,
    warned: `warn: ${warnings.join('; ')}`,
    unchecked: 'unchecked: no policy and no handler applies to this write',
    allowed: 'allow',
  }[verdict];
}

function fieldMismatches(expected: readonly string[], { causes }: ReviewResult): readonly Mismatch[] {
  const wanted = [...new Set(expected)].sort();
  const received = [...new Set(causes.map(({ field }) => field))].sort();
  return unless(isEqual(wanted, received), 'fields', shown(wanted), shown(received));
}

function warningMismatches(expected: readonly string[], { warnings }: ReviewResult): readonly Mismatch[] {
  const left = [...warnings];
  const isThere = expected.map((text) => {
    const index = left.findIndex((warning) => warning.includes(text));
    return index !== -1 && left.splice(index, 1).length === 1;
  });
  const holds = isThere.every(Boolean) && left.length === 0;
  return unless(holds, 'warnings', shown(expected), shown(warnings));
}

/** Maps are compared partially, lists by length and index, other values exactly. Null expects an absent field. */
function valueMismatches(expected: JsonValue, received: unknown, path: string): readonly Mismatch[] {
  if (expected === null) return unless((received ?? null) === null, path, 'nothing', shown(received));
  if (isJsonObject(expected) && isJsonObject(received))
    return Object.entries(expected).flatMap(([key, value]) =>
      valueMismatches(value, ownValue(received, key), `${path}.${key}`),
    );
  if (isJsonArray(expected) && isJsonArray(received) && expected.length === received.length)
    return expected.flatMap((value, index) => valueMismatches(value, received[index], `${path}[${index}]`));
  return unless(isEqual(expected, received), path, shown(expected), shown(received));
}

const shown = (value: unknown): string => (value === undefined ? 'nothing' : stringifyJson(value));
