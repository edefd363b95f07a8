// suite: processes
/** The package as users install it: packed, installed into an empty folder, and run from there. */
import { execFile } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { VERSION } from '../../src/config/version.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually, startProgram, tail } from '../support/processes.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..', '..');
const PATIENCE_MS = 600_000;

const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  readonly devDependencies: Readonly<Record<string, string>>;
}; // our own file

const work = mkdtempSync(join(tmpdir(), 'gatehouse-package-'));
/** The folder of a user, with the package, and links to the tools of the project that `gatehouse init` creates. */
const home = join(work, 'home');
let packed: readonly string[] = [];

const npm = async (cwd: string, ...args: readonly string[]): Promise<string> =>
  (await run('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline'], { cwd, maxBuffer: 2 ** 24 }))
    .stdout;

beforeAll(async () => {
  // A copy, because `prepack` deletes dist/, which other tests may read.
  const source = join(work, 'source');
  const files =
    'src deploy demo docs scripts/clean.ts scripts/explain-node.js package.json README.md CHANGELOG.md LICENSE tsconfig.json tsconfig.build.json';
  for (const path of files.split(' ')) cpSync(join(ROOT, path), join(source, path), { recursive: true });
  const manifest = readFileSync(join(source, 'package.json'), 'utf8');
  // `npm run check:types` checks the same files, and takes most of the time of a build.
  writeFileSync(join(source, 'package.json'), manifest.replace(' -p tsconfig.build.json', '$& --noCheck'));
  symlinkSync(join(ROOT, 'node_modules'), join(source, 'node_modules'));
  const [result] = JSON.parse(await npm(source, 'pack', '--json', '--silent')) as {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }[]; // documented by npm
  packed = result?.files.map(({ path }) => path) ?? [];

  mkdirSync(home);
  await npm(home, 'install', '--ignore-scripts', join(source, result?.filename ?? ''));
  for (const tool of ['typescript', '@types/node']) {
    const link = join(home, 'node_modules', tool);
    rmSync(link, { recursive: true, force: true });
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', tool), link);
  }
  symlinkSync('../typescript/bin/tsc', join(home, 'node_modules', '.bin', 'tsc'));
}, PATIENCE_MS);

afterAll(() => {
  rmSync(work, { recursive: true, force: true });
}, PATIENCE_MS);

async function shell(node: string, command: string, cwd = home) {
  const others = (process.env.PATH ?? '').split(delimiter).filter((part) => !part.includes('node_modules'));
  const env = {
    PATH: [dirname(node), ...others].join(delimiter),
    HOME: process.env.HOME,
    LANG: 'C.UTF-8',
    TMPDIR: work,
  };
  try {
    const { stdout, stderr } = await run('bash', ['-c', command], { cwd, env });
    return { code: 0, out: stdout + stderr };
  } catch (error) {
    const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number }; // documented by Node
    return { code, out: stdout + stderr };
  }
}

test('the package contains the program, its types, manifests and documentation, and neither sources nor tests', () => {
  const some =
    'dist/main.js dist/index.js dist/index.d.ts deploy/install.yaml docs/status.md demo/policies/velero.yaml LICENSE README.md';
  for (const path of some.split(' ')) expect(packed).toContain(path);
  expect(
    packed.filter(
      (path) => !/^(dist|deploy|docs|demo)\/|^(LICENSE|(README|CHANGELOG)\.md|package\.json)$/.test(path),
    ),
  ).toEqual([]);
  expect(packed.filter((path) => /^dist\/.*(\.test\.|\.map$)/.test(path))).toEqual([]);
});

async function otherNode(major: number): Promise<string | undefined> {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(work, `node-${major}`);
  try {
    mkdirSync(folder);
    await npm(folder, 'install', '--ignore-scripts', `${name}@${major}`);
    return join(folder, 'node_modules', name, 'bin', 'node');
  } catch (error) {
    console.info(`Node ${major} is not tested: ${String(error).slice(0, 500)}`);
    return undefined;
  }
}

test('a controller with generated types costs the compiler little', { timeout: PATIENCE_MS }, async () => {
  const project = join(home, 'typed');
  cpSync(join(ROOT, 'deploy', 'examples', 'users', 'user-crd.yaml'), join(project, 'user-crd.yaml'));
  const generated = await shell(
    process.execPath,
    'npx --no gatehouse -- generate types . --out kinds.ts',
    project,
  );
  expect(generated).toEqual({ code: 0, out: '' });
  writeFileSync(join(project, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(project, 'users.ts'),
    `import { defineController } from '@gatehouse-dev/gatehouse';
import type { User } from './kinds.ts';
export default defineController<User>({
  watch: { apiGroups: ['people.example.com'], apiVersions: ['v1'], resources: ['users'] },
  async reconcile({ metadata: { name } }, { apply, get }) {
    const mail: string | undefined = (await get('users.people.example.com', { name }))?.spec.mail;
    // @ts-expect-error -- the generated type lacks the field
    (await get('users.people.example.com', { name }))?.spec.email;
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { mail: mail ?? '' } } });
  },
});
`,
  );
  const flags =
    '--strict --module nodenext --target es2024 --lib es2024 --types node --noEmit --allowImportingTsExtensions --extendedDiagnostics users.ts';
  for (const [skipLibCheck, most] of [
    ['true', 5_000],
    ['false', 60_000],
  ] as const) {
    const { code, out } = await shell(
      process.execPath,
      `npx --no tsc -- --skipLibCheck ${skipLibCheck} ${flags}`,
      project,
    );
    expect({ code, out: code === 0 ? '' : out }).toEqual({ code: 0, out: '' });
    const [, count = 'Infinity'] = /^Types: +(\d+)$/m.exec(out) ?? [];
    expect(Number(count)).toBeLessThan(most);
  }
});

/** The oldest that `engines` permits is tried every night: it runs the same commands. */
if (!isNightly) console.log('only with Node 24; npm run test:nightly also tries Node 22');

describe.each(isNightly ? [24, 22] : [24])('with Node %i', { timeout: PATIENCE_MS }, (major) => {
  let found: string | undefined;

  beforeAll(async () => {
    found = major === 24 ? process.execPath : await otherNode(major);
  }, PATIENCE_MS);

  const usable = (skip: (note: string) => never): string => found ?? skip(`npm lacks Node ${major} here`);

  test('npx runs the commands', async ({ skip }) => {
    const node = usable(skip);
    expect((await shell(node, 'node --version')).out).toMatch(new RegExp(`^v${major}\\.`));
    expect(await shell(node, 'npx --no gatehouse -- --version')).toEqual({ code: 0, out: `${VERSION}\n` });
    expect((await shell(node, 'npx --no kubectl-gatehouse -- --help')).out).toContain(
      'Usage: kubectl gatehouse',
    );

    const examples = 'node_modules/@gatehouse-dev/gatehouse/deploy/examples';
    const review = await shell(node, `npx --no gatehouse -- review -p ${examples} -f ${examples}/objects`);
    expect(review).toEqual({
      code: 1,
      out: expect.stringContaining('not found; create it or fix the name') as string,
    });
    // Node itself strips no types below node_modules; the tour runs this controller.
    const manifests = await shell(
      node,
      `npx --no gatehouse -- manifests --handlers ${examples}/users/controllers`,
    );
    expect(manifests).toEqual({
      code: 0,
      out: expect.stringContaining('gatehouse-controllers-of-users') as string,
    });
  });

  test('gatehouse init creates a project whose tests and types pass, and whose handler decides', async ({
    skip,
  }) => {
    const node = usable(skip);
    const name = `handlers-${major}`;
    const project = join(home, name);
    expect(await shell(node, `npx --no gatehouse -- init ${name}`)).toMatchObject({ code: 0 });
    expect(readdirSync(project).sort().join(' ')).toBe(
      '.gitignore Dockerfile datacenter-crd.yaml handlers objects package.json references-role.yaml server-crd.yaml server-policy.yaml tests tsconfig.json user-crd.yaml',
    );
    const manifest = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as Record<
      string,
      object
    >; // npm's format
    expect(manifest).toMatchObject({
      type: 'module',
      devDependencies: {
        typescript: devDependencies.typescript,
        '@types/node': devDependencies['@types/node'],
      },
    });

    const tests = await shell(node, 'npm test', project);
    expect(tests.out).toMatch(/pass 4\n.*fail 0\n[^]*7 tests: 7 passed/);
    // The compiler gives the same answer on every release.
    if (major === 24) expect(await shell(node, 'npm run check', project)).toMatchObject({ code: 0 });
    const again = await shell(node, `npx --no gatehouse -- init ${name}`);
    expect(again).toMatchObject({
      code: 1,
      out: expect.stringContaining(`${name} already contains package.json`) as string,
    });
  });

  test('the sandbox starts with the handlers of that project', async ({ skip }) => {
    const node = usable(skip);
    const logFile = join(work, `sandbox-${major}.log`);
    const main = join(home, 'node_modules', '.bin', 'gatehouse');
    const program = startProgram(node, [main, 'sandbox', '--no-tour', '--handlers', 'handlers'], {
      logFile,
      cwd: join(home, `handlers-${major}`),
    });
    try {
      const ready = () => {
        if (!program.isRunning()) throw new Error(tail(logFile));
        return /^ *export KUBECONFIG=/m.exec(readFileSync(logFile, 'utf8'))?.[0];
      };
      await eventually('the sandbox', ready);
    } finally {
      await program.stop();
    }
  });
});
