// suite: processes
/** Handlers as users write them, loaded by Node: Gatehouse reports their problems before it serves any request. */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseDocument } from 'yaml';

import { writeHandlers, writeModules } from '../support/handler-folder.ts';
import { MAIN } from '../support/main-module.ts';

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

async function manifests(
  folder: string,
  ...flags: string[]
): Promise<{ out: string; error: string; code: number }> {
  const args = [MAIN, 'manifests', '--handlers', folder, ...flags];
  try {
    const { stdout } = await run(process.execPath, args, {
      cwd: folder.startsWith('/') ? folder : folders[0],
    });
    return { out: stdout, error: '', code: 0 };
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number }; // documented by Node
    return { out: stdout, error: stderr, code };
  }
}

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
    const { error, code } = await manifests(folder);
    expect(code).toBe(1);
    lines = error
      .replace(/^error: /, '')
      .trimEnd()
      .split('\n');
  });

  test.each([
    ['enum.ts', /^:2: TypeScript enum is not supported/],
    ['syntax.js', /^: Unexpected token/],
    ['missing.mjs', /^: Cannot find module .*nowhere\.js/],
    ['throws.ts', /^:2: at the top$/],
    ['rejects.js', /^: a string$/],
    ['nothing.js', /^: it has no default export: .*subfolder$/],
    ['object.js', /^: its default export was not made by defineHandler or defineController$/],
    ['unnamable_file.ts', /^: "unnamable_file" cannot be the name of a handler/],
    ['misspelt.ts', /^:2: defineHandler: valdate is unknown; there are .*; it has neither/],
    ['good.ts', / and .*same\.ts: both have the name good: rename one$/],
  ])('%s is reported with the line and the reason', (file, message) => {
    const path = join(folder, file);
    const [line = ''] = lines.filter((each) => each.startsWith(path));
    expect(line.slice(path.length)).toMatch(message);
  });

  test('all errors are reported at once, and nothing else', () => {
    expect(lines).toHaveLength(10);
  });

  test('a scope that would lock out the cluster is refused once all files can be loaded', async () => {
    const one = written(writeHandlers({ 'pods.ts': GOOD.replace("['infra.example.com']", "['*']") }));
    const { error, code } = await manifests(one);
    expect(code).toBe(1);
    expect(error).toContain(`${join(one, 'pods.ts')}: match.apiGroups: "*" also covers`);
  });

  test('`serve` ends before it sends any request to the cluster', async () => {
    const args = ['serve', '--handlers', folder, '--operations-port', '0', '--kubeconfig', '/dev/null'];
    await expect(run(process.execPath, [MAIN, ...args])).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining('enum.ts:2: TypeScript enum is not supported') as string,
    });
  });
});

describe('without a handler', () => {
  test.each([
    ['no such folder', () => './nowhere', './nowhere: the folder does not exist'],
    [
      'code in a URL',
      () => 'data:text/javascript,console.error("code ran")',
      'console.error("code ran"): it is neither a folder nor the name of a package',
    ],
    ['no such package', () => 'missing-handlers', "missing-handlers: Cannot find package 'missing-handlers'"],
  ])('%s is reported', async (_what, source, message) => {
    const name = source();
    if (name.startsWith('/')) written(name);
    expect((await manifests(name)).error).toContain(message);
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
    const { out } = await manifests(folder);
    expect(out).toContain(
      '#   racks: racks.infra.example.com (the kinds that it governs, because reads is absent)\n',
    );
    expect(out).not.toContain('pods');
    expect(parseDocument(out).toJS()).toEqual({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: {
        name: 'gatehouse-references-handlers',
        labels: { 'gatehouse.dev/aggregate-to-references': 'true' },
      },
      rules: [
        { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list', 'watch'] },
        {
          apiGroups: ['infra.example.com'],
          resources: ['datacenters', 'racks'],
          verbs: ['get', 'list', 'watch'],
        },
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
    const of = (name: string) =>
      run(process.execPath, [MAIN, 'manifests', '--handlers', name], {
        cwd: project,
      });
    expect((await of('our-handlers')).stdout).toContain('#   pods: nodes\n');
    await expect(of('nameless')).rejects.toMatchObject({
      stderr: expect.stringContaining(
        'nameless, default export [0]: a handler in a package needs a name',
      ) as string,
    });
  });
});

describe('deploy/examples/handler', () => {
  const example = join(ROOT, 'deploy', 'examples', 'handler');
  /** Resolves the package to its source, because the tests run without a build. */
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ resolve: (name, context, next) => name === '@gatehouse-dev/gatehouse'
      ? { url: ${JSON.stringify(new URL('../../src/index.ts', import.meta.url).href)}, shortCircuit: true } : next(name, context) });`;

  test('passes its own tests', async () => {
    const args = [
      '--import',
      `data:text/javascript,${encodeURIComponent(hook)}`,
      '--test',
      'handlers/*.test.ts',
    ];
    const { stdout } = await run(process.execPath, args, { cwd: example });
    expect(stdout).toMatch(/pass 3\n.*fail 0\n/);
  });

  test('has a counterpart in docs/handlers.md that passes its tests, too', async () => {
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
    const args = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`, '--test'];
    const { stdout } = await run(process.execPath, args, { cwd: folder });
    expect(stdout).toMatch(/pass 2\n.*fail 0\n/);
  });

  test('contains the ClusterRole that `gatehouse manifests` prints', async () => {
    const { out } = await manifests(join(example, 'handlers'));
    const kept = readFileSync(join(example, 'references-role.yaml'), 'utf8');
    expect(parseDocument(kept).toJS()).toEqual(parseDocument(out).toJS());
  });
});
