/** Parses and runs test suites. docs/review.md documents the format. */
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { readFileSync } from 'node:fs';

import { messageOf } from '../../../json/error-message.ts';
import { isJsonArray, textIn, type JsonObject } from '../../../json/json.ts';
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
  readText,
  readTexts,
  readWord,
  type YamlField,
} from '../yaml.ts';
import { checkExpectation, readExpectation } from './expectation.ts';
import type { LoadedHandler } from '../../../runtime/handlers/load-handlers.ts';
import { userOf } from '../flags.ts';
import { createReviewer } from '../reviewer.ts';
import type { ReviewContext } from '../stage.ts';

const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE'] as const;

type Suite = NonNullable<ReturnType<typeof suiteOf>>;

/** Reads the objects of a file. Throws UnusableInput. */
type ReadFile = (path: string) => readonly PlacedObject[];

const SUITE_KEYS = ['policies', 'crds', 'existing', 'handlers', 'namespace', 'tests'];
const TEST_KEYS = ['name', 'object', 'objectFrom', 'old', 'oldFrom', 'user', 'groups', 'operation', 'expect'];

/**
 * Problems contain the line. A suite with problems must not run.
 * @param allowHandlers whether the suite may name handlers: code, which runs with the permissions of the caller
 */
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
    // Resolved: the paths in the file are relative to its folder.
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

/** An object inside the test, or one that the test refers to. */
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
      ? `${file} has no ${wanted ?? 'object'}, only ${listed.join(', ')}`
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
    // Without mismatches, the test has passed.
    results.push({ test, reviewed, mismatches: checkExpectation(test.expect, reviewed.result) });
  }
  return { file, results, notes: notes.map((note) => `${file}: ${note}`) };
}
