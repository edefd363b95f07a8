// suite: processes
/** Handlers as users write them, loaded by Node: Gatehouse reports their problems before it serves any request. */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseDocument } from 'yaml';

import { writeHandlers, writeModules } from '../support/handler-folder.ts';
import { referencesRole } from '../support/objects.ts';
import { runGatehouse } from '../support/review-command.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..', '..');
const folders: string[] = [];

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

const written = (folder: string) => {
  folders.push(folder);
  return folder;
};

const GOOD = `export default defineHandler({
  match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
  reads: ['datacenters.infra.example.com', 'secrets'],
  validate(server: { spec?: { units?: number } }) {},
});`;

const manifests = (folder: string, cwd = folder.startsWith('/') ? folder : folders[0]) =>
  runGatehouse(['manifests', '--handlers', folder], cwd === undefined ? {} : { cwd });

describe('a folder with errors', () => {
  let lines: readonly string[];
  let folder: string;

  beforeAll(async () => {
    folder = written(
      writeHandlers({
        'good.ts': GOOD,
        'same.ts': GOOD.replace('defineHandler({', "defineHandler({ name: 'good',"),
        'enum.ts': 'enum Tier { Gold }\nexport default 1;',
        'syntax.js': 'const a = ;',
        'missing.mjs': "import './nowhere.js';",
        'throws.ts': "throw new Error('at the top');",
        'rejects.js': 'await Promise.reject("a string");',
        'nothing.js': 'export const helper = 1;',
        'object.js': 'export default { match: {} };',
        'unnamable_file.ts': GOOD,
        'misspelt.ts': GOOD.replace('validate(', 'valdate('),
        'leases.ts': GOOD.replace('infra.example.com', 'coordination.k8s.io').replace(
          "['servers']",
          "['leases']",
        ),
        'helper.test.ts': 'throw new Error("tests are next to handlers, and are not loaded");',
        'types.d.ts': 'nonsense',
        'README.md': 'nonsense',
        'lib/shared.ts': 'throw new Error("no handler imports it");',
      }),
    );
    const { stderr, code } = await manifests(folder);
    expect(code).toBe(1);
    lines = stderr
      .replace(/^error: /, '')
      .trimEnd()
      .split('\n');
  });

  test.each([
    ['enum.ts', /^:2:1: TypeScript enum is not supported/],
    ['syntax.js', /^: Unexpected token/],
    ['missing.mjs', /^: Cannot find module .*nowhere\.js/],
    ['throws.ts', /^:2:7: at the top$/],
    ['rejects.js', /^: threw "a string", which is not an Error and lacks a stack$/],
    ['nothing.js', /^: the default export is missing: .*subfolder$/],
    ['object.js', /^: its default export was not made by defineHandler or defineController$/],
    ['unnamable_file.ts', /^: "unnamable_file" cannot be the name of a handler/],
    ['misspelt.ts', /^:2:\d+: defineHandler: valdate is unknown; there are .*; it has neither/],
    ['good.ts', / and .*same\.ts: both have the name good: rename one$/],
  ])('%s is reported with the line and the reason', (file, message) => {
    const path = join(folder, file);
    const [line = ''] = lines.filter((each) => each.startsWith(path));
    expect(line.slice(path.length)).toMatch(message);
  });

  test('all errors are reported together, and nothing else', () => {
    expect(lines).toHaveLength(10);
  });

  test('a scope that would lock out the cluster is refused once all files can be loaded', async () => {
    const one = written(writeHandlers({ 'pods.ts': GOOD.replace("['infra.example.com']", "['*']") }));
    const { stderr, code } = await manifests(one);
    expect(code).toBe(1);
    expect(stderr).toContain(`${join(one, 'pods.ts')}: match.apiGroups: "*" also covers`);
  });

  test('`serve` ends before it sends any request to the cluster', async () => {
    const args = ['serve', '--handlers', folder, '--operations-port', '0', '--kubeconfig', '/dev/null'];
    const { code, stderr } = await runGatehouse(args);
    expect(code).toBe(1);
    expect(stderr).toContain('enum.ts:2:1: TypeScript enum is not supported');
  });
});

describe('without a handler', () => {
  test.each([
    ['no such folder', './nowhere', './nowhere: the folder does not exist'],
    [
      'code in a URL',
      'data:text/javascript,console.error("code ran")',
      'console.error("code ran"): it is neither a folder nor the name of a package',
    ],
    ['no such package', 'missing-handlers', "missing-handlers: Cannot find package 'missing-handlers'"],
  ])('%s is reported', async (_what, name, message) => {
    expect((await manifests(name)).stderr).toContain(message);
  });
});

describe('gatehouse manifests', () => {
  test('prints the ClusterRole for the kinds that handlers read, which deploy/base aggregates by its label', async () => {
    const folder = written(
      writeHandlers({
        'servers.ts': GOOD,
        'racks.js': `import { height } from './lib/heights.ts';
          export default defineHandler({
            match: { apiGroups: ['infra.example.com'], resources: ['racks', 'racks/status'] },
            mutate(rack) { rack.height = height; },
          });`,
        'silent.mjs': `export default defineHandler({
            match: { apiGroups: [''], resources: ['pods'] }, reads: [], validate() {} });`,
        'lib/heights.ts': 'export const height: number = 42;',
      }),
    );
    const { stdout } = await manifests(folder);
    expect(stdout).toContain(
      '#   racks: racks.infra.example.com (the kinds that it governs, because reads is absent)\n',
    );
    expect(stdout).not.toContain('pods');
    const verbs = ['get', 'list', 'watch'];
    expect(parseDocument(stdout).toJS()).toEqual({
      ...referencesRole('handlers', '', []),
      rules: [
        { apiGroups: [''], resources: ['secrets'], verbs },
        { apiGroups: ['infra.example.com'], resources: ['datacenters', 'racks'], verbs },
      ],
    });
  });

  test('loads handlers from a package, which gives their names', async () => {
    const handlers = `import { defineHandler } from '@gatehouse-dev/gatehouse';
      export default [defineHandler({ name: 'pods', match: { apiGroups: [''], resources: ['pods'] }, reads: ['nodes'], validate() {} })];`;
    const project = written(
      writeModules({
        'node_modules/our-handlers/package.json':
          '{"name":"our-handlers","type":"module","exports":{"import":"./index.js"}}',
        'node_modules/our-handlers/index.js': handlers,
        'node_modules/nameless/package.json': '{"name":"nameless","type":"module","exports":"./index.js"}',
        'node_modules/nameless/index.js': handlers.replace("name: 'pods',", ''),
      }),
    );
    expect((await manifests('our-handlers', project)).stdout).toContain('#   pods: nodes\n');
    expect((await manifests('nameless', project)).stderr).toContain(
      'nameless, default export [0]: a handler in a package needs a name',
    );
  });
});

describe('deploy/examples/handler', () => {
  const example = join(ROOT, 'deploy', 'examples', 'handler');
  /** Resolves the package to its source, because the tests run without a build. */
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ resolve: (name, context, next) => {
      const [, file] = /^@gatehouse-dev\\/gatehouse(?:\\/(testing))?$/.exec(name) ?? [, ''];
      return file === '' ? next(name, context)
        : { url: ${JSON.stringify(new URL('../../src/', import.meta.url).href)} + (file ?? 'index') + '.ts', shortCircuit: true };
    } });`;

  const testsIn = async (cwd: string, ...files: readonly string[]) => {
    const args = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`, '--test', ...files];
    return (await run(process.execPath, args, { cwd })).stdout;
  };

  test('passes its own tests', async () => {
    expect(await testsIn(example, 'handlers/*.test.ts')).toMatch(/pass 3\n.*fail 0\n/);
  });

  test.each(['memcacheds', 'users'])('the controller of %s passes its own test', async (name) => {
    const folder = join(ROOT, 'deploy', 'examples', name);
    expect(await testsIn(folder, 'controllers/*.test.ts')).toMatch(/pass 1\n.*fail 0\n/);
  });

  test('has a counterpart in docs/handlers.md that also passes its tests', async () => {
    const page = readFileSync(join(ROOT, 'docs', 'handlers.md'), 'utf8');
    const blocks = [...page.matchAll(/```ts\n\/\/ (handlers\/\S+)(.*?)```/gs)];
    const modules = blocks.map(([, file = '', code = '']): [string, string] => [file, `// ${code}`]);
    expect(modules.map(([file]) => file)).toEqual([
      'handlers/servers.ts',
      'handlers/servers.test.ts',
      'handlers/versions.ts',
    ]);
    const folder = written(
      writeModules({ ...Object.fromEntries(modules), 'package.json': '{"type":"module"}' }),
    );
    expect(await testsIn(folder)).toMatch(/pass 2\n.*fail 0\n/);
  });

  test('contains the ClusterRole that `gatehouse manifests` prints', async () => {
    const { stdout } = await manifests(join(example, 'handlers'));
    const kept = readFileSync(join(example, 'references-role.yaml'), 'utf8');
    expect(parseDocument(kept).toJS()).toEqual(parseDocument(stdout).toJS());
  });
});
