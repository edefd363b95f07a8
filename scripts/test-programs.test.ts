import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const SCRIPT = join(import.meta.dirname, 'test-programs.sh');
/** What the script calls before it needs Go. */
const TOOLS = [
  'bash',
  'dirname',
  'find',
  'sort',
  'xargs',
  'sha256sum',
  'awk',
  'cut',
  'sed',
  'mkdir',
  'flock',
];

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-programs-'));
  for (const tool of TOOLS) {
    const found = spawnSync('sh', ['-c', `command -v ${tool}`], { encoding: 'utf8' }).stdout.trim();
    symlinkSync(found, join(folder, tool));
  }
});

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** Runs the script on a machine without Go and with an empty cache. */
function run(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { status, stdout, stderr } = spawnSync(SCRIPT, args, {
    encoding: 'utf8',
    env: { PATH: folder, XDG_CACHE_HOME: join(folder, 'cache'), ...env },
  });
  return { status, stdout, stderr };
}

function executable(path: string, lines: string): void {
  writeFileSync(path, `#!/bin/bash\n${lines}\n`);
  chmodSync(path, 0o755);
}

test('without Go, it says what to install', () => {
  const { status, stderr } = run(['newest']);
  expect(status).toBe(1);
  expect(stderr).toContain('Go is not installed. Install Go 1.26');
});

test('if Go is too old and cannot fetch the newer one, the error has its reason', () => {
  const old = mkdtempSync(join(folder, 'old-go-'));
  executable(
    join(old, 'go'),
    'echo "go: download go1.26 for linux/amd64: toolchain not available" >&2; exit 1',
  );
  const { status, stderr } = run(['tools'], { PATH: `${old}:${folder}` });
  expect(status).toBe(1);
  expect(stderr).toMatch(/Go 1\.26 is needed.*toolchain not available/);
});

test('it refuses a folder in KUBEBUILDER_ASSETS that lacks a program', () => {
  const assets = mkdtempSync(join(folder, 'assets-'));
  executable(join(assets, 'etcd'), '');
  const { status, stderr } = run(['newest'], { KUBEBUILDER_ASSETS: assets });
  expect(status).toBe(1);
  expect(stderr).toContain('there is no executable kube-apiserver in it');
});

test('a complete folder in KUBEBUILDER_ASSETS is used as it is', () => {
  const assets = mkdtempSync(join(folder, 'assets-'));
  for (const name of ['etcd', 'kube-apiserver', 'kube-controller-manager'])
    executable(join(assets, name), '');
  expect(run(['oldest'], { KUBEBUILDER_ASSETS: assets })).toEqual({
    ...{ status: 0, stdout: `${assets}\n`, stderr: '' },
  });
});

test('setup-envtest is asked for the minor version that go.mod pins', () => {
  const envtest = mkdtempSync(join(folder, 'setup-envtest-'));
  executable(join(envtest, 'setup-envtest'), 'echo "$@"');
  const PATH = `${envtest}:${folder}`;
  expect(run(['newest'], { PATH }).stdout).toMatch(/^use -p path 1\.3\d\.x\n$/);
  expect(run(['oldest'], { PATH }).stdout).toBe('use -p path 1.30.x\n');
});

test('it names the folders that it knows', () => {
  expect(run(['latest'])).toMatchObject({
    ...{ status: 1, stderr: 'test-programs: give one argument: newest, oldest, node or tools\n' },
  });
});
