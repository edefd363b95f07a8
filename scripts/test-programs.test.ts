import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { readRecording } from '../test/conformance/recording.ts';
import { NEWEST_RELEASE } from '../test/support/go-programs.ts';

const SCRIPT = join(import.meta.dirname, 'test-programs.sh');
/** What the script calls before it needs Go. */
const TOOLS = [
  'bash',
  'dirname',
  'find',
  'sort',
  'xargs',
  'sha256sum',
  'cut',
  'sed',
  'mkdir',
  'flock',
  'tee',
  'touch',
  'tail',
  'mktemp',
  'mv',
  'rm',
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
  expect(stderr).toMatch(/Go is not installed\. Install Go 1\.26/);
});

test('if Go is too old and cannot fetch the newer one, the error has its reason', () => {
  const old = mkdtempSync(join(folder, 'old-go-'));
  executable(
    join(old, 'go'),
    'echo "go: download go1.26 for linux/amd64: toolchain not available" >&2; exit 1',
  );
  const { status, stderr } = run(['tools'], { PATH: `${old}:${folder}` });
  expect(status).toBe(1);
  expect(stderr).toMatch(/Go 1\.26[.\d]* is needed.*toolchain not available/);
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

test('setup-envtest is asked for the minor version that go.mod pins; what it lacks is built', () => {
  const envtest = mkdtempSync(join(folder, 'setup-envtest-'));
  const assets = mkdtempSync(join(folder, 'assets-'));
  executable(join(envtest, 'setup-envtest'), `echo "$@" >&2; echo ${assets}`);
  const PATH = `${envtest}:${folder}`;
  for (const name of ['etcd', 'kube-apiserver']) executable(join(assets, name), '');
  expect(run(['newest'], { PATH })).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(
      /has no kube-controller-manager; building newest\n.*Go is not installed/,
    ) as string,
  });
  executable(join(assets, 'kube-controller-manager'), '');
  expect(run(['newest'], { PATH })).toMatchObject({
    ...{ stdout: `${assets}\n`, stderr: expect.stringMatching(/^use -p path 1\.3\d\.x\n$/) as string },
  });
  expect(run(['oldest'], { PATH }).stderr).toBe('use -p path 1.30.x\n');
});

/** A compiler whose linker fails for one program. */
function compiler(broken: string): string {
  const go = mkdtempSync(join(folder, 'go-'));
  executable(
    join(go, 'go'),
    `case "$*" in
      *' version') echo go version go1.26.8 linux/amd64 ;;
      *' list '*) echo v1.37.2 ;;
      *'env '*) echo proxy ;;
      *${broken}*) echo no space left on device >&2; exit 1 ;;
      *) while [[ $# -gt 1 && $1 != -o ]]; do shift; done; printf '' >"$2/server"; printf '' >"$2/kube-apiserver" ;;
    esac`,
  );
  return go;
}

test('a build that fails leaves nothing that a later run takes for complete', () => {
  const PATH = `${compiler('cmd/kube-apiserver')}:${folder}`;
  const XDG_CACHE_HOME = mkdtempSync(join(folder, 'cache-'));
  for (const attempt of ['first', 'second'])
    expect(run(['newest'], { PATH, XDG_CACHE_HOME }), attempt).toMatchObject({
      ...{ status: 1, stdout: '', stderr: expect.stringContaining('no space left on device') as string },
    });
});

test('the folder does not depend on the way the script is called', () => {
  const PATH = `${compiler('nothing')}:${folder}`;
  const XDG_CACHE_HOME = mkdtempSync(join(folder, 'cache-'));
  const call = (command: string) =>
    spawnSync(command, ['newest'], {
      ...{ cwd: join(import.meta.dirname, '..'), encoding: 'utf8', env: { PATH, XDG_CACHE_HOME } },
    }).stdout;
  expect(call(SCRIPT)).toContain(XDG_CACHE_HOME);
  expect(call('scripts/test-programs.sh')).toBe(call(SCRIPT));
});

test('it names the folders that it knows', () => {
  expect(run(['latest'])).toMatchObject({
    ...{
      status: 1,
      stderr:
        'test-programs: give one argument: newest, oldest, node, tools, velero, cel-newest or cel-oldest\n',
    },
  });
});

test('the conformance cases were recorded from the pinned Kubernetes: another one is compared less strictly', () => {
  expect(readRecording().server).toBe(NEWEST_RELEASE);
});
