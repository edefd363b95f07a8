// suite: processes
/** `gatehouse review` as a command: its output, its exit code, and its messages for invalid input. */
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { testFolder } from '../support/folder.ts';
import { runReview, writeFiles } from '../support/review-command.ts';

const folder = testFolder('review');

/** Seven lines, with one line of its spec. */
const policy = (name: string, spec: string, match = 'apiGroups: [infra.example.com], resources: [servers]') =>
  `apiVersion: gatehouse.dev/v1alpha1
kind: AdmissionPolicy
metadata: { name: ${name} }
spec:
  match: { ${match} }
${spec}
---
`;

const BER1 =
  'spec.datacenter: Datacenter "ber1" not found; create it or fix the name (reference datacenter) (policy servers)';

test('the JSON of the examples has the form that docs/review.md documents', async () => {
  const { code, stdout } = await runReview([
    ...['-p', 'deploy/examples', '-f', 'deploy/examples/objects/db.yaml', '-o', 'json'],
  ]);
  expect(JSON.parse(stdout)).toEqual({
    kind: 'Review',
    summary: { objects: 1, denied: 1, warned: 0, allowed: 0, unchecked: 0 },
    notes: [],
    results: [
      {
        object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name: 'db' },
        source: { file: 'deploy/examples/objects/db.yaml', line: 2 },
        operation: 'CREATE',
        decision: 'denied',
        policies: ['servers'],
        handlers: [],
        message: BER1,
        code: 403,
        reason: 'Forbidden',
        causes: [{ field: 'spec.datacenter', message: BER1.slice(17) }],
        warnings: [],
        auditAnnotations: {},
        patch: [],
      },
    ],
  });
  expect(code).toBe(1);
});

test('objects from the standard input can refer to each other, and --show-patch shows their mutations', async () => {
  const { code, stdout } = await runReview(['-p', 'deploy/examples', '-f', '-', '--show-patch'], {
    standardInput: `{"apiVersion": "v1", "kind": "List", "items": [
      {"apiVersion": "infra.example.com/v1", "kind": "Server", "metadata": {"name": "web"}, "spec": {"datacenter": "fra1"}},
      {"apiVersion": "infra.example.com/v1", "kind": "Datacenter", "metadata": {"name": "fra1"}}
    ]}`,
  });
  expect(stdout).toContain(
    'Server default/web   allowed     servers    patch: {"op":"add","path":"/spec/tier","value":"standard"}\n',
  );
  expect(stdout).toContain('\n2 objects: 1 allowed, 1 unchecked\n');
  expect(code).toBe(0);
});

test('all errors in the input are reported together, with file, document and line', async () => {
  writeFiles(folder, {
    'p/policies.yaml': `${policy('one', '')}apiVersion: a.example.com/v1
metadata: { name: nameless }
---
key: [1, 2
other: 3`,
    'f/text.json': '"just a text"',
    'f/list.yaml': 'apiVersion: v1\nkind: List\nitems:\n  - { kind: Thing }\n',
    'empty/notes.txt': 'nothing to read',
  });
  const paths = ['-f', 'f', 'gone.yaml', '-p', 'p', '--existing', 'empty'];
  const { code, stdout, stderr } = await runReview(paths, { cwd: folder });
  expect(stderr.split('\n')).toEqual([
    'error: f/list.yaml:1 (item 1): apiVersion is missing: not a Kubernetes object',
    'error: f/text.json:1: not a Kubernetes object: apiVersion and kind are required',
    'error: gone.yaml: no such file or folder',
    'error: p/policies.yaml:12 (document 3): Flow sequence in block collection must be sufficiently indented and end with a ]',
    'error: p/policies.yaml:8 (document 2): kind is missing',
    'error: empty: the folder has no .yaml, .yml or .json file (use --recursive to read subfolders)',
    '',
  ]);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

test('policies that cannot be enforced are reported with the reason for each, and nothing is judged', async () => {
  writeFiles(folder, {
    'policies.yaml':
      policy('typo', '  validat: { immutable: [spec.tier] }') +
      policy('cel', '  validate: { rules: [{ expression: "object.spec.units <" }] }'),
  });
  const at = (document: number, column: number, message: string) =>
    `error: policies.yaml:${7 * document - 1}:${column} (document ${document}): AdmissionPolicy ${message}`;
  const { code, stdout, stderr } = await runReview([
    ...['-p', join(folder, 'policies.yaml'), '--crds', 'deploy/examples', '-f', 'deploy/examples/objects'],
  ]);
  expect(stderr.replaceAll(`${folder}/`, '').split('\n')).toEqual([
    at(1, 3, 'typo: spec.validat: field validat not found in spec: did you mean validate?'),
    expect.stringContaining(at(2, 57, 'cel: spec.validate.rules[0].expression: Syntax error')),
    '    object.spec.units <',
    '                       ^',
    '',
  ]);
  expect(stdout).toBe('');
  expect(code).toBe(2);
});

test('policies are compiled if there is nothing to review', async () => {
  const { code, stdout, stderr } = await runReview([
    ...['-p', 'deploy/examples/server-policy.yaml', '--crds', 'deploy/examples'],
  ]);
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '1 policy compiles\n', stderr: '' });
  writeFiles(folder, {
    'policies.yaml': ['pods', 'configmaps', 'secrets']
      .map((resource) => policy(resource, '', `apiGroups: [""], resources: [${resource}]`))
      .join(''),
  });
  const several = await runReview(['-p', join(folder, 'policies.yaml')]);
  expect(several.stdout).toBe('3 policies compile\n');
  expect(several.stderr).toContain('note: fields of pods are not checked: it is a built-in kind\n');
  const json = await runReview(['-p', join(folder, 'policies.yaml'), '-o', 'json']);
  expect(JSON.parse(json.stdout)).toMatchObject({
    kind: 'PolicyReview',
    policies: ['pods', 'configmaps', 'secrets'],
  });
});

test('a failed test shows the expected and the actual result', async () => {
  writeFiles(folder, {
    'policy.yaml': policy(
      'units',
      `  defaults: [{ path: spec.tier, value: standard }]
  validate: { rules: [{ expression: object.spec.units < 5, message: too many, fieldPath: spec.units }] }`,
    ),
    'suite.yaml': `policies: [policy.yaml]
tests:
  - name: nine are too many
    object: &nine { apiVersion: infra.example.com/v1, kind: Server, metadata: { name: a }, spec: { units: 9 } }
    expect: { decision: allow }
  - name: the tier is gold
    object: { <<: *nine, spec: { units: 1 } }
    expect: { decision: allow, object: { spec: { tier: gold, units: 1 } } }
`,
  });
  const { code, stdout, stderr } = await runReview(['--suite', 'suite.yaml'], { cwd: folder });
  expect(stdout.split('\n')).toEqual([
    'suite.yaml',
    '  FAILED  nine are too many (suite.yaml:3)',
    '          decision',
    '            expected: allow',
    '            received: deny: spec.units: too many (policy units)',
    '  FAILED  the tier is gold (suite.yaml:6)',
    '          object.spec.tier',
    '            expected: "gold"',
    '            received: "standard"',
    '',
    '2 tests: 2 failed',
    '',
  ]);
  expect(stderr).toBe(
    'note: suite.yaml: the CustomResourceDefinition of Server (infra.example.com/v1) is missing: assuming servers.infra.example.com, cluster-scoped, with any fields; add it to the crds\n',
  );
  expect(code).toBe(1);
});

test('handlers mutate, judge, read existing objects, and report on stderr why they failed', async () => {
  const server = (name: string, spec: string) =>
    `apiVersion: infra.example.com/v1\nkind: Server\nmetadata: { name: ${name}, namespace: shop }\nspec: ${spec}\n`;
  const match = "match: { apiGroups: ['infra.example.com'], resources: ['servers'] }";
  writeFiles(folder, {
    'handlers/peers.ts': `
      import { defineHandler } from '@gatehouse-dev/gatehouse';
      export default defineHandler<{ spec: { units?: number; tier?: string } }>({
        ${match},
        mutate(server) { server.spec.tier ??= 'bronze'; },
        async validate(server, context) {
          const peers = await context.list('servers');
          if (peers.length > 1) context.warn(\`has \${peers.length} peers\`);
          if ((server.spec.units ?? 0) > 5) return context.deny('too many', { field: 'spec.units' });
        },
      });`,
    'handlers/breaks.ts': `
      import { defineHandler } from '@gatehouse-dev/gatehouse';
      export default defineHandler({
        ${match},
        validate(server) { if (server.metadata.name === 'c') throw new Error('oh no'); },
      });`,
    'objects.yaml': [server('a', '{}'), server('b', '{ units: 9 }'), server('c', '{}')].join('---\n'),
  });
  const { code, stdout, stderr } = await runReview(
    [...['--handlers', 'handlers', '-f', 'objects.yaml', '-o', 'json']],
    { cwd: folder },
  );
  const { results } = JSON.parse(stdout) as { results: object[] };
  expect(results).toMatchObject([
    {
      decision: 'warned',
      handlers: ['breaks', 'peers'],
      warnings: ['has 2 peers'],
      patch: [{ path: '/spec/tier', value: 'bronze' }],
    },
    {
      decision: 'denied',
      message: 'spec.units: too many (handler peers)',
      causes: [{ field: 'spec.units', message: 'too many (handler peers)' }],
    },
    { decision: 'denied', code: 500, message: 'handler breaks failed: Error: oh no' },
  ]);
  expect(stderr).toMatch(/handler breaks: handler failed\nError: oh no\n {4}at .*breaks\.ts:5/);
  expect(code).toBe(1);

  writeFiles(folder, { 'handlers/broken.ts': 'export const nothing = 1;' });
  const broken = await runReview(['--handlers', 'handlers', '-f', 'objects.yaml'], { cwd: folder });
  expect(broken.stderr).toMatch(/^error: \S+broken\.ts: the default export is missing/m);
  expect(broken.code).toBe(2);
});

test('a suite also tests handlers, from a folder next to it, and does not run code without --allow-handlers', async () => {
  writeFiles(folder, {
    'handlers/team.ts': `
      import { defineHandler } from '@gatehouse-dev/gatehouse';
      console.error('code ran');
      export default defineHandler({
        match: { apiGroups: [''], resources: ['configmaps'] },
        mutate(object) { object.metadata.labels = { team: 'none', ...object.metadata.labels }; },
      });`,
    'tests/suite.yaml': `handlers: ../handlers
tests:
  - name: everything has a team
    object: { apiVersion: v1, kind: ConfigMap, metadata: { name: a } }
    expect: { decision: allow, object: { metadata: { labels: { team: none } } } }
`,
  });
  const refused = await runReview(['--suite', 'tests'], { cwd: folder });
  expect(refused).toEqual({
    code: 2,
    stdout: '',
    stderr:
      'error: tests/suite.yaml:1: handlers: handlers are code: read it, then pass --allow-handlers to run it\n',
  });
  const { code, stdout } = await runReview(['--suite', 'tests', '--allow-handlers'], { cwd: folder });
  expect(stdout).toContain('\n1 test: 1 passed\n');
  expect(code).toBe(0);
});
