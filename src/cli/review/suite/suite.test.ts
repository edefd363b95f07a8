import { expect, test } from 'vitest';

import type { PlacedObject } from '../input.ts';
import { parseSuite } from './suite.ts';

const placed = (line: number, kind: string, name: string): PlacedObject => ({
  place: { file: 'tests/objects.yaml', line },
  object: { apiVersion: 'v1', kind, metadata: { name } },
});
const stored: Readonly<Record<string, readonly PlacedObject[]>> = {
  'tests/objects.yaml': [placed(1, 'Pod', 'a'), placed(5, 'Secret', 'a'), placed(9, 'Pod', 'b')],
};

const readStored = (path: string) => {
  const found = stored[path];
  if (found === undefined) throw new Error(`${path}: no such file or folder`);
  return found;
};

const parse = (...lines: readonly string[]) =>
  parseSuite(lines.join('\n'), 'tests/suite.yaml', readStored, false);

const POD = '{ apiVersion: v1, kind: Pod, metadata: { name: a } }';

test('paths are relative to the suite, and missing fields have defaults', () => {
  const { suite, problems } = parse(
    'policies: [../p.yaml, /etc/p.yaml]',
    'tests:',
    '  - name: one',
    `    object: ${POD}`,
    '    expect: { decision: allow }',
    '  - name: two',
    '    objectFrom: objects.yaml#b',
    '    oldFrom: objects.yaml#Pod/a',
    '    expect: { decision: deny, messageMatches: "^no+$" }',
  );
  expect(problems).toEqual([]);
  expect(suite).toMatchObject({
    policies: ['p.yaml', '/etc/p.yaml'],
    crds: [],
    existing: [],
    handlers: undefined,
  });
  expect(suite?.tests).toMatchObject([
    { name: 'one', line: 3, operation: 'CREATE', groups: [], object: { place: { line: 4 } } },
    { name: 'two', line: 6, operation: 'UPDATE', object: { object: { metadata: { name: 'b' } } } },
  ]);
  expect(suite?.tests[1]?.expect.messageMatches?.test('nooo')).toBe(true);
});

const wrap = (...test: readonly string[]) => [
  'tests:',
  '  - name: one',
  ...test.map((line) => `    ${line}`),
];
const EXPECT = 'expect: { decision: allow }';
const OBJECT = `object: ${POD}`;

test.each<[readonly string[], string]>([
  [['policies: p.yaml', ...wrap(OBJECT, EXPECT)], ':1: policies: must be a list of strings'],
  [
    wrap(OBJECT, 'usr: ada', EXPECT),
    ':4: tests[0].usr: unknown key: must be one of name, object, objectFrom, old, oldFrom, user, groups, operation, expect',
  ],
  [wrap(OBJECT), ':2: tests[0].expect: a test needs expect: the expected result'],
  [wrap(EXPECT), ':2: tests[0]: a test needs an object, or objectFrom: <file>#<name>'],
  [
    wrap('object: { kind: Pod }', EXPECT),
    ':3: tests[0].object: apiVersion is missing: not a Kubernetes object',
  ],
  [
    wrap('objectFrom: objects.yaml#c', EXPECT),
    ':3: tests[0].objectFrom: c not found in objects.yaml, only Pod/a (tests/objects.yaml:1), Secret/a (tests/objects.yaml:5), Pod/b (tests/objects.yaml:9)',
  ],
  [
    wrap('objectFrom: objects.yaml#a', EXPECT),
    ':3: tests[0].objectFrom: several objects match: use objects.yaml#<kind>/<name> with one of Pod/a (tests/objects.yaml:1), Secret/a (tests/objects.yaml:5)',
  ],
  [
    wrap('objectFrom: gone.yaml#a', EXPECT),
    ':3: tests[0].objectFrom: tests/gone.yaml: no such file or folder',
  ],
  [wrap(OBJECT, 'operation: UPDATE', EXPECT), ':2: tests[0]: an UPDATE needs old: the current object'],
  [wrap(OBJECT, 'operation: PATCH', EXPECT), ':4: tests[0].operation: must be one of CREATE, UPDATE, DELETE'],
  [
    wrap(OBJECT, 'expect: { message: text }'),
    ':4: tests[0].expect: decision is required: one of allow, warn, deny, unchecked',
  ],
  [
    wrap(OBJECT, 'expect: { decision: allow, message: "no" }'),
    ':4: tests[0].expect.message: allowed only with decision: deny',
  ],
  [
    wrap(OBJECT, 'expect:', '  decision: deny', '  messageMatches: "(?=no)"'),
    ':6: tests[0].expect.messageMatches: ',
  ],
  [['a: 1', '---', 'b: 2'], ':3: a suite must be a single document: move the others to separate files'],
  [['tests: [1'], ':1: '],
  [[''], ':1: the suite is empty: it must be a map of policies, crds, existing, handlers, namespace, tests'],
])('a problem has its line: %j', (lines, problem) => {
  expect(parse(...lines).problems).toContainEqual(expect.stringContaining(`tests/suite.yaml${problem}`));
});

test('a problem in a merged map is reported where it is merged', () => {
  const { problems } = parse(
    'tests:',
    '  - &base',
    '    name: one',
    `    object: ${POD}`,
    '    expect: { decision: allow }',
    '  - { <<: *base, name: two, groups: all }',
  );
  expect(problems).toEqual(['tests/suite.yaml:6: tests[1].groups: must be a list of strings']);
});
