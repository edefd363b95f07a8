/** Tests of policies in YAML. docs/review.md says what may stand in them. */
import { dirname, isAbsolute, join } from 'node:path';

import { isJsonArray, type JsonObject } from '../../../json/json.ts';
import { describePlace, metaTextOf, objectsOf, textOf, type PlacedObject } from '../documents.ts';
import { jsonOfYaml, parseYamlDocuments } from '../yaml-text.ts';
import { createCursor, readMap, readText, readTexts, readWord, type Cursor } from './yaml-field.ts';
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
  /** Paths of the suite are relative to its folder; these are not any more. */
  readonly policies: readonly string[];
  readonly crds: readonly string[];
  readonly existing: readonly string[];
  readonly handlers: string | undefined;
  readonly namespace: string | undefined;
  readonly tests: readonly SuiteTest[];
}

/** The objects of a file. Throws UnusableInput when it cannot be read. */
export type ReadFile = (path: string) => readonly PlacedObject[];

const SUITE_KEYS = ['policies', 'crds', 'existing', 'handlers', 'namespace', 'tests'];
const TEST_KEYS = ['name', 'object', 'objectFrom', 'old', 'oldFrom', 'user', 'groups', 'operation', 'expect'];

/** What is wrong with it comes with the line; the suite is of no use then. */
export function parseSuite(
  text: string,
  file: string,
  readFile: ReadFile,
): { readonly suite: Suite; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const report = (line: number, path: string, message: string) => {
    problems.push(`${file}:${line}: ${path === '' ? '' : `${path}: `}${message}`);
  };
  const { documents, lineAt } = parseYamlDocuments(text);
  const [document, second] = documents;
  for (const { problems: flaws } of documents) for (const flaw of flaws) report(flaw.line, '', flaw.message);
  if (second !== undefined)
    report(second.line, '', 'a suite is one document: put the others into files of their own');
  if (document === undefined) report(1, '', `it is empty: write a map of ${SUITE_KEYS.join(', ')}`);
  if (document === undefined || problems.length > 0) return { suite: emptySuite(file), problems };
  const { node } = document;
  const cursor = createCursor({ node, value: jsonOfYaml(node.toJS()), lineAt, report });
  return { suite: suiteOf(cursor, file, readFile), problems };
}

const emptySuite = (file: string): Suite => ({
  file,
  policies: [],
  crds: [],
  existing: [],
  handlers: undefined,
  namespace: undefined,
  tests: [],
});

function suiteOf(cursor: Cursor, file: string, readFile: ReadFile): Suite {
  if (readMap(cursor, SUITE_KEYS) === undefined) return emptySuite(file);
  const relative = (path: string) => (isAbsolute(path) ? path : join(dirname(file), path));
  const paths = (key: string) => (readTexts(cursor.at(key)) ?? []).map(relative);
  const tests = cursor.at('tests');
  if (!isJsonArray(tests.value) || tests.value.length === 0) tests.report('write a list of tests');
  const count = isJsonArray(tests.value) ? tests.value.length : 0;
  return {
    file,
    policies: paths('policies'),
    crds: paths('crds'),
    existing: paths('existing'),
    handlers: readText(cursor.at('handlers')),
    namespace: readText(cursor.at('namespace')),
    tests: Array.from({ length: count }, (_, index) =>
      testOf(tests.at(index), { file, read: (path) => readFile(relative(path)) }),
    ).filter((test) => test !== undefined),
  };
}

interface Files {
  /** The suite's own. */
  readonly file: string;
  readonly read: ReadFile;
}

function testOf(cursor: Cursor, files: Files): SuiteTest | undefined {
  if (readMap(cursor, TEST_KEYS) === undefined) return undefined;
  const name = readText(cursor.at('name'));
  if (name === undefined || name === '') cursor.report('a test needs a name: say what it shows');
  const object = sourceOf(cursor, 'object', files);
  if (
    object === undefined &&
    cursor.at('object').value === undefined &&
    cursor.at('objectFrom').value === undefined
  ) {
    cursor.report('a test needs an object, or objectFrom: <file>#<name>');
  }
  const old = sourceOf(cursor, 'old', files);
  const operation = readWord(cursor.at('operation'), OPERATIONS) ?? (old === undefined ? 'CREATE' : 'UPDATE');
  if (operation === 'UPDATE' && old === undefined)
    cursor.report('an UPDATE needs old: the object as it is now');
  if (operation !== 'UPDATE' && old !== undefined) {
    cursor.at('operation').report(`a ${operation} has no old: leave it out`);
  }
  const expect = readExpectation(cursor.at('expect'));
  const groups = readTexts(cursor.at('groups')) ?? [];
  const user = readText(cursor.at('user'));
  if (name === undefined || object === undefined || expect === undefined) return undefined;
  return { name, line: cursor.line, object, old, user, groups, operation, expect };
}

/** An object that is written in the test, or that is named by it. */
function sourceOf(cursor: Cursor, key: 'object' | 'old', { file, read }: Files): PlacedObject | undefined {
  const written = cursor.at(key);
  const named = cursor.at(`${key}From`);
  if (written.value !== undefined && named.value !== undefined)
    named.report(`there is ${key} already: leave one out`);
  if (written.value !== undefined) {
    const { found, problems } = objectsOf({ place: { file, line: written.line }, value: written.value });
    if (problems.length > 0 || found.length !== 1) written.report(flawOf(problems, file));
    return found[0];
  }
  const source = readText(named);
  return source === undefined ? undefined : namedObject(source, named, read);
}

function flawOf([problem]: readonly string[], file: string): string {
  if (problem === undefined) return 'write one object';
  return problem.startsWith(file) ? problem.slice(problem.indexOf(': ') + 2) : problem;
}

/** `file#name`, `file#Kind/name`, or a file that holds one object alone. */
function namedObject(source: string, cursor: Cursor, read: ReadFile): PlacedObject | undefined {
  const at = source.lastIndexOf('#');
  const file = at === -1 ? source : source.slice(0, at);
  const wanted = at === -1 ? undefined : source.slice(at + 1);
  const all = tryRead(file, cursor, read);
  if (all === undefined) return undefined;
  const found = all.filter(({ object }) => wanted === undefined || namesOf(object).includes(wanted));
  const [only, other] = found;
  if (only !== undefined && other === undefined) return only;
  const listed = (only === undefined ? all : found).map(
    ({ object, place }) => `${namesOf(object)[1] ?? ''} (${describePlace(place)})`,
  );
  cursor.report(
    only === undefined
      ? `there is no ${wanted ?? 'object'} in ${file}, only ${listed.join(', ')}`
      : `that is several objects: write ${file}#<kind>/<name> of ${listed.join(', ')}`,
  );
  return undefined;
}

function tryRead(file: string, cursor: Cursor, read: ReadFile): readonly PlacedObject[] | undefined {
  try {
    return read(file);
  } catch (error) {
    cursor.report(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function namesOf(object: JsonObject): readonly string[] {
  const name = metaTextOf(object, 'name');
  return [name, `${textOf(object, 'kind')}/${name}`];
}
