/** Parses test suites in YAML. docs/review.md documents the format. */
import { dirname, isAbsolute, join } from 'node:path';

import { messageOf } from '../../../json/error-message.ts';
import { isJsonArray, textIn, type JsonObject } from '../../../json/json.ts';
import { describePlace, objectsOf, type PlacedObject } from '../documents.ts';
import { jsonOfYaml, parseYamlDocuments } from '../yaml-text.ts';
import { createField, readMap, readText, readTexts, readWord, type YamlField } from './yaml-field.ts';
import { readExpectation, type Expectation } from './expectation.ts';

const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE'] as const;

export interface SuiteTest {
  readonly name: string;
  readonly line: number;
  readonly object: PlacedObject;
  readonly old: PlacedObject | undefined;
  readonly user: string | undefined;
  readonly groups: readonly string[];
  readonly operation: (typeof OPERATIONS)[number];
  readonly expect: Expectation;
}

export interface Suite {
  readonly file: string;
  /** Resolved: the paths in the file are relative to its folder. */
  readonly policies: readonly string[];
  readonly crds: readonly string[];
  readonly existing: readonly string[];
  readonly handlers: string | undefined;
  readonly namespace: string | undefined;
  readonly tests: readonly SuiteTest[];
}

/** Reads the objects of a file. Throws UnusableInput. */
type ReadFile = (path: string) => readonly PlacedObject[];

const SUITE_KEYS = ['policies', 'crds', 'existing', 'handlers', 'namespace', 'tests'];
const TEST_KEYS = ['name', 'object', 'objectFrom', 'old', 'oldFrom', 'user', 'groups', 'operation', 'expect'];

/**
 * Problems contain the line. A suite with problems must not run.
 * @param allowHandlers whether the suite may name handlers: code, which runs with the permissions of the caller
 */
export function parseSuite(
  text: string,
  file: string,
  readFile: ReadFile,
  allowHandlers: boolean,
): { readonly suite: Suite; readonly problems: readonly string[] } {
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
  if (document === undefined || problems.length > 0) return { suite: emptySuite(file), problems };
  const { node } = document;
  const field = createField({ node, lineAt, report }, jsonOfYaml(node.toJS()));
  const handlers = field.at('handlers');
  if (handlers.value !== undefined && !allowHandlers)
    handlers.report('handlers are code: read it, then pass --allow-handlers to run it');
  return { suite: suiteOf(field, file, readFile), problems };
}

const emptySuite = (file: string): Suite => ({
  ...{ file, policies: [], crds: [], existing: [], tests: [] },
  ...{ handlers: undefined, namespace: undefined },
});

function suiteOf(field: YamlField, file: string, readFile: ReadFile): Suite {
  if (readMap(field, SUITE_KEYS) === undefined) return emptySuite(file);
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

function testOf(field: YamlField, file: string, read: ReadFile): SuiteTest | undefined {
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
