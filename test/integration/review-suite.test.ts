/** Suites of `gatehouse review --suite`: discovery, execution and reports. */
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { formatJunit } from '../../src/cli/review/report/junit.ts';
import { suitesJson, suitesJunit } from '../../src/cli/review/report/objects.ts';
import { runSuites } from '../../src/cli/review/suite/suite.ts';
import { testFolder } from '../support/folder.ts';
import { writeFiles } from '../support/review-command.ts';

const folder = testFolder('review');

async function run(path: string, recursive = false) {
  return await runSuites(
    [join(folder, path)],
    { recursive, standardInput: () => '' },
    { ownNamespace: 'gatehouse-system', now: new Date('2026-11-21T12:00:00Z'), openHandlers: undefined },
  );
}

const POLICY = `
apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionPolicy
metadata: { name: pods }
spec:
  match: { apiGroups: [''], resources: [pods], operations: [CREATE, UPDATE, DELETE] }
  warnings: [{ condition: "request.operation == 'UPDATE'", message: "pods should be recreated" }]
  auditAnnotations: [{ key: who, valueExpression: request.userInfo.username }]
  validate:
    rules:
      - { expression: "request.operation != 'DELETE' || 'admins' in request.userInfo.groups", message: only admins delete }
`;
const pod = (name: string) =>
  `{ apiVersion: v1, kind: Pod, metadata: { name: ${name}, namespace: shop }, spec: { containers: [{ name: c, image: c }] } }`;

test('suites in a folder with other files run: users, operations, warnings and annotations', async () => {
  writeFiles(folder, {
    'policy.yaml': POLICY,
    'pods.yaml': `${pod('a')}\n---\n${pod('b')}`,
    'suite.yaml': `
policies: [policy.yaml]
tests:
  - name: ordinary users cannot delete
    objectFrom: pods.yaml#a
    operation: DELETE
    expect: { decision: deny, message: only admins delete, fields: [''] }
  - name: admins delete
    objectFrom: pods.yaml#Pod/a
    operation: DELETE
    user: ada
    groups: [admins]
    expect: { decision: allow, auditAnnotations: { who: ada } }
  - name: updates cause a warning
    objectFrom: pods.yaml#b
    oldFrom: pods.yaml#b
    expect: { decision: warn, warnings: [should be recreated], auditAnnotations: { who: user, violations: null } }
`,
  });
  const [suite, ...others] = await run('.');
  expect(others).toEqual([]);
  expect(suite?.results.map(({ test: { name }, mismatches }) => [name, mismatches])).toEqual([
    ['ordinary users cannot delete', []],
    ['admins delete', []],
    ['updates cause a warning', []],
  ]);
});

test('a file with neither objects nor a suite is an invalid suite, and all errors are reported', async () => {
  writeFiles(folder, {
    'policy.yaml': POLICY,
    'one.yaml': 'polices: [policy.yaml]\ntests: []\n',
    'two.yaml': `policies: [gone.yaml]\ntests:\n  - { name: one, object: ${pod('a')}, expect: { decision: no } }\n`,
  });
  const message = await run('.').then(String, (error: unknown) => String(error));
  expect(message.replaceAll(`${folder}/`, '').split('\n')).toEqual([
    'UnusableInput: one.yaml:1: polices: unknown key: must be one of policies, crds, existing, handlers, namespace, tests',
    'one.yaml:2: tests: must be a list of tests',
    'two.yaml:3: tests[0].expect.decision: must be one of allow, warn, deny, unchecked',
  ]);
});

test('failures in JSON and JUnit XML show the expected and the actual result', async () => {
  writeFiles(folder, {
    'policy.yaml': POLICY,
    'suite.yaml': `policies: [policy.yaml]\ntests:\n  - { name: it is refused, object: ${pod('a')}, expect: { decision: deny } }\n`,
  });
  const suites = await run('suite.yaml');
  const file = join(folder, 'suite.yaml');
  expect(suitesJson(suites, [])).toMatchObject({
    kind: 'SuiteReview',
    summary: { suites: 1, tests: 1, passed: 0, failed: 1 },
    suites: [
      {
        file,
        tests: [
          {
            name: 'it is refused',
            line: 3,
            passed: false,
            failures: [{ what: 'decision', expected: 'deny', received: 'allow' }],
            result: { object: { kind: 'Pod', name: 'a' }, decision: 'allowed', policies: ['pods'] },
          },
        ],
      },
    ],
  });
  expect(formatJunit('review', suitesJunit(suites))).toContain(
    `<failure message="decision: expected deny, received allow">decision: expected deny, received allow\nat ${file}:3</failure>`,
  );
});
