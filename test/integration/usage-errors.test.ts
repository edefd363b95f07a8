// suite: processes
/** Mistakes on the command line, in the terminal and in the version of Node, with the message that the user sees. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { testFolder } from '../support/folder.ts';
import { actionsRole, admissionPolicy, referencesRole } from '../support/objects.ts';
import { runGatehouse } from '../support/review-command.ts';
import { listen } from '../support/tls.ts';

const ROOT = join(import.meta.dirname, '..', '..');

const folder = testFolder('usage');
const NO_BACKUP = /^name a backup, or use --newest-in or --from-cluster/;

test.each([
  ['nope', "unknown command 'nope'", 'gatehouse'],
  ['statsu', "unknown command 'statsu' (Did you mean status?)", 'gatehouse'],
  ['status --namspace x', "unknown option '--namspace' (Did you mean --namespace?)", 'gatehouse status'],
  ['status -n Prod', /"Prod" is not a valid name of a namespace\.$/, 'gatehouse status'],
  [
    'review',
    'nothing to review: use -f <objects>, -p <policies>, --suite <tests> or --cluster',
    'gatehouse review',
  ],
  ['review -f objects -o xml', /Allowed choices are table, json, junit\.$/, 'gatehouse review'],
  [
    'review --suite deploy/examples/tests --user ada',
    '--user cannot be combined with --suite: set it in the suite',
    'gatehouse review',
  ],
  ['restore nope', "unknown command 'nope' (Did you mean open?)", 'gatehouse restore'],
  ['restore close', "missing required argument 'name'", 'gatehouse restore close'],
  [
    'restore open --for 30h --kubeconfig /nowhere',
    /^name the user that restores.*; --for 30h: must not exceed 24h$/,
    'gatehouse restore open',
  ],
  ['restore rehearse', NO_BACKUP, 'gatehouse restore rehearse'],
  ['restore rehearse backup --from-cluster', NO_BACKUP, 'gatehouse restore rehearse'],
  ['doctor -o xml', /xml/, 'gatehouse doctor'],
  ['serve --port x', '--port: "x" is not a port (0 to 65535)', 'gatehouse serve'],
  [
    'webhook --lease-duration 5s',
    '--lease-duration is a flag of gatehouse controllers and gatehouse serve, not of gatehouse webhook: remove it',
    'gatehouse webhook',
  ],
  [
    'webhook --dev-url https://192.0.2.10:8443',
    '--dev-url is a flag of gatehouse serve, not of gatehouse webhook: remove it',
    'gatehouse webhook',
  ],
  ['manifests', 'nothing to print: use --handlers <folder> or -p <policies>', 'gatehouse manifests'],
])('"gatehouse %s" is one line, where to find help, and exit code 2', async (line, message, command) => {
  const { code, stdout, stderr } = await runGatehouse(line.split(' '));
  const [first = '', help, ...further] = stderr.trimEnd().split('\n');
  expect(first.replace(/^error: /, '')).toEqual(
    typeof message === 'string' ? message : expect.stringMatching(message),
  );
  expect([code, stdout, help, further]).toEqual([2, '', `See ${command} --help`, []]);
});

test('a rehearsal of an empty archive is an error in each format', async () => {
  const archive = join(folder, 'nightly.tar.gz');
  writeFileSync(archive, '');
  const message = `${archive}: contains no Kubernetes objects, so nothing was rehearsed`;
  const rehearse = (output: string) => runGatehouse(['restore', 'rehearse', archive, '-o', output]);
  expect(await rehearse('table')).toEqual({ code: 2, stdout: '', stderr: `error: ${message}\n` });
  const json = await rehearse('json');
  expect([json.code, JSON.parse(json.stdout)]).toEqual([2, { kind: 'Rehearsal', error: message }]);
  const junit = await rehearse('junit');
  expect(junit.stdout).toContain(
    '<testsuites name="gatehouse restore rehearse" tests="1" failures="0" errors="1"',
  );
  expect([junit.code, junit.stdout]).toEqual([2, expect.stringContaining(`<error message="${message}"/>`)]);
});

test('help of a nested command is the help of that command', async () => {
  const { code, stdout } = await runGatehouse(['help', 'restore', 'open']);
  expect([code, stdout.split('\n', 1)]).toEqual([0, ['Usage: gatehouse restore open [options] [name]']]);
});

async function withApiServer(
  code: number,
  answer: object,
  use: (url: string, kubeconfig: string) => Promise<void>,
): Promise<void> {
  const server = createServer((_request, response) => {
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const context = { name: 'c', context: { cluster: 'c', user: 'u' } };
  // Gatehouse sends no credentials over plain HTTP; the answer is the same.
  const users = [{ name: 'u', user: {} }];
  const clusters = [{ name: 'c', cluster: { server: url } }];
  writeFileSync(
    kubeconfig,
    JSON.stringify({ kind: 'Config', 'current-context': 'c', contexts: [context], users, clusters }),
  );
  try {
    await use(url, kubeconfig);
  } finally {
    server.close();
  }
}

test('credentials that the API server does not accept are named, not the network', async () => {
  const answer = { kind: 'Status', code: 401, reason: 'Unauthorized', message: 'Unauthorized' };
  await withApiServer(401, answer, async (url, kubeconfig) => {
    for (const command of ['status', 'doctor']) {
      const { code, stderr } = await runGatehouse([command, '--kubeconfig', kubeconfig]);
      expect([code, stderr]).toEqual([
        1,
        `error: the API server ${url} refused the credentials of the kubeconfig (401): log in again, or choose another --context\n`,
      ]);
    }
  });
});

test('an API server that is too old ends each process and command with one sentence', async () => {
  const version = { major: '1', minor: '29+', gitVersion: 'v1.29.15-eks-1a2b3c4' };
  const fact = 'the API server runs Kubernetes v1.29.15-eks-1a2b3c4, but Gatehouse supports 1.30 to 1.37';
  await withApiServer(200, version, async (_url, kubeconfig) => {
    const processes = [
      ['webhook', '--port=0', '--operations-port=0'],
      ['controllers', '--operations-port=0'],
      ['serve', '--port=0', '--operations-port=0'],
    ];
    for (const args of [...processes, ['status'], ['restore', 'status']]) {
      const { code, stderr } = await runGatehouse([...args, '--kubeconfig', kubeconfig]);
      expect([args, code, stderr]).toEqual([
        args,
        1,
        `error: ${fact}: upgrade every API server of the cluster\n`,
      ]);
    }
    const { code, stdout } = await runGatehouse(['doctor', '-o', 'json', '--kubeconfig', kubeconfig]);
    const { findings } = parse(stdout) as { readonly findings: readonly object[] }; // of the doctor
    expect([code, findings[0]]).toMatchObject([1, { check: 'kubernetes', severity: 'problem', seen: fact }]);
  });
});

async function runWith(preload: string, ...args: readonly string[]) {
  const child = spawn(
    process.execPath,
    [
      '--import',
      `data:text/javascript,${encodeURIComponent(preload)}`,
      join(ROOT, 'src', 'main.ts'),
      ...args,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return { code: child.exitCode, stderr };
}

test('an older Node is named in one line, before any module is loaded that it cannot parse', async () => {
  const pretend = (version: string) =>
    `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
     Object.defineProperty(process, 'version', { value: 'v${version}' });`;
  const refused = await runWith(pretend('22.18.0'), 'status');
  expect(refused).toEqual({
    code: 1,
    stderr:
      'error: Gatehouse needs Node 22.19 or newer, and this is v22.18.0: install Node 24, or run "npx node" in a checkout\n',
  });
  expect((await runWith(pretend('22.19.0'), 'nope')).stderr).toContain('unknown command');
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    readonly engines: { readonly node: string };
  };
  expect(engines.node).toBe('>=22.19');
  // old versions load an imported module before they run the check
  const source = readFileSync(join(ROOT, 'src', 'main.ts'), 'utf8');
  expect(source).not.toMatch(/^import |\?\.|\?\?/m);
});

test('after npm ci, an older Node is explained once', async () => {
  const explain = async (userAgent: string) => {
    const child = spawn(process.execPath, [join(ROOT, 'scripts', 'explain-node.js')], {
      env: { ...process.env, npm_config_user_agent: userAgent },
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    return await text(child.stderr);
  };
  expect(await explain('npm/11.19.1 node/v20.20.2 linux x64 workspaces/false')).toMatch(
    /^Your Node is 20\.20, .*\n$/,
  );
  expect(await explain('npm/11.19.1 node/v22.19.0 linux x64 workspaces/false')).toBe('');
  // npm warns about each package otherwise
  expect(readFileSync(join(ROOT, '.npmrc'), 'utf8')).toMatch(/^loglevel=error$/m);
});

test('the ClusterRole of a policy is printed as YAML that can be applied as it is', async () => {
  const file = join(folder, 'policy.yaml');
  const role = referencesRole('servers', 'infra.example.com', ['datacenters', 'servers']);
  const target = { apiGroup: 'infra.example.com', resource: 'datacenters' };
  const reference = { name: 'datacenter', path: 'spec.datacenter', target };
  const policyWith = (change: object) =>
    JSON.stringify(
      admissionPolicy('servers', {
        match: { apiGroups: ['infra.example.com'], resources: ['servers', 'servers/status'] },
        validate: { references: [{ ...reference, ...change }] },
      }),
    );
  const policy = policyWith({});
  writeFileSync(file, policy);
  const printed = await runGatehouse(['manifests', '-p', file]);
  expect([printed.code, printed.stderr, parse(printed.stdout)]).toEqual([0, '', role]);
  const piped = await runGatehouse(['manifests', '-p', '-'], { standardInput: policy });
  expect(piped.stdout).toBe(printed.stdout);

  const standardInput = policyWith({ onTargetDelete: 'Cascade' });
  const both = await runGatehouse(['manifests', '-p', '-'], { standardInput });
  expect(parseAllDocuments(both.stdout).map((document) => document.toJS() as unknown)).toEqual([
    role,
    actionsRole('servers', 'infra.example.com', ['servers'], ['delete']),
  ]);
});

test.each([
  ['completion bash', 141],
  ['--help', 0],
  ['review --suite deploy/examples/tests', 141],
])('"gatehouse %s | true" ends quietly', async (line, expected) => {
  const child = spawn(process.execPath, [join(ROOT, 'src', 'main.ts'), ...line.split(' ')], { cwd: ROOT });
  child.stdout.destroy();
  const ended = once(child, 'exit') as Promise<[number | null]>; // as Node documents
  const [errors, [code]] = await Promise.all([text(child.stderr), ended]);
  expect(errors).not.toMatch(/EPIPE|at .*\.ts:/);
  expect([0, expected]).toContain(code);
});
