// suite: processes
/** `gatehouse sandbox` as a user starts, reads, stops and restarts it. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';

import { createClient, type KubeClient } from '../../src/kube/client.ts';
import { loadConnection } from '../../src/kube/connection.ts';
import { createRest } from '../../src/kube/rest.ts';
import { configMaps, namespaces, secrets } from '../../src/kube/well-known.ts';
import { testFolder } from '../support/folder.ts';
import { MAIN } from '../support/main-module.ts';
import { eventually, startProgram, tail, type Program } from '../support/processes.ts';
import { listen } from '../support/tls.ts';

const { PATH, NODE_COMPILE_CACHE } = process.env;
const folder = testFolder('command');
const running: Program[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map((program) => program.stop()));
});

function start(...args: readonly string[]): Program {
  const tmp = mkdtempSync(join(folder, 'tmp-'));
  const program = startProgram(process.execPath, [MAIN, 'sandbox', ...args], {
    logFile: join(folder, `${running.length}.log`),
    env: { PATH, NODE_COMPILE_CACHE, HOME: folder, TMPDIR: tmp },
  });
  running.push(program);
  return program;
}

const output = ({ logFile }: Program): string => readFileSync(logFile, 'utf8');

async function kubeconfigIn(program: Program): Promise<string> {
  return await eventually(
    'a kubeconfig',
    () => {
      if (!program.isRunning()) throw new Error(tail(program.logFile));
      return /^(?: {3}export KUBECONFIG=)?(\/\S+kubeconfig)$/m.exec(output(program))?.[1];
    },
    { timeoutMs: 90_000 },
  );
}

async function withClient<T>(kubeconfig: string, use: (client: KubeClient) => Promise<T>): Promise<T> {
  const connection = await loadConnection({ kubeconfig });
  try {
    return await use(createClient(createRest({ connection, userAgent: 'test' })));
  } finally {
    await connection.close();
  }
}

async function interrupt(program: Program): Promise<void> {
  program.kill('SIGINT');
  expect(await program.exited).toEqual({ code: 0, signal: null });
}

const temporaryFiles = (): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.startsWith('tmp-'))
    .flatMap((name) => readdirSync(join(folder, name)))
    .filter((name) => name.startsWith('gatehouse'));

describe('gatehouse sandbox', { concurrent: false }, () => {
  test('runs its tour in steps, suggests commands, and leaves nothing behind on Ctrl-C', async () => {
    const program = start();
    const kubeconfig = await kubeconfigIn(program);
    const story = output(program);
    expect(story).toMatch(
      /^Ready \d+\.\d s after the process began\. This is a sandbox: .* runs no pods\.$/m,
    );
    const steps = [...story.matchAll(/^(\d+)\. /gm)].map(([, step]) => Number(step));
    expect(steps).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(story).toContain('conditions: NamespaceReady=True, Ready=True');
    expect(story).toContain('Datacenter "fra1" not found; create it or fix the name');
    expect(story).toMatch(
      /^ {3}VIOLATION IN +FIELD +POLICY +WHAT\n {3}Server shop\/restored +spec\.datacenter +servers +TargetMissing: /m,
    );
    expect(temporaryFiles()).toHaveLength(1);

    const found = await withClient(kubeconfig, (client) =>
      client.get(secrets, { namespace: 'shop', name: 'api-tls' }),
    );
    expect(found).toBeDefined();

    await interrupt(program);
    expect(output(program)).toMatch(/\nStopping …\n$/);
    expect(temporaryFiles()).toEqual([]);
  });

  test('--quiet prints only the path of the kubeconfig, and nothing is left after the terminal is closed', async () => {
    const program = start('--quiet');
    const kubeconfig = await kubeconfigIn(program);
    program.kill('SIGHUP');
    expect(await program.exited).toEqual({ code: 0, signal: null });
    expect(output(program)).toBe(`${kubeconfig}\n`);
    expect(temporaryFiles()).toEqual([]);
  });

  test('--status-page prints the address and a token that opens the page', async () => {
    const program = start('--no-tour', '--status-page');
    await kubeconfigIn(program);
    const [, url = '', token = ''] =
      /^ {3}status page: +(\S+)\n {3}its token: +(\S+)$/m.exec(output(program)) ?? [];
    const authorized = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    expect([authorized.status, await authorized.text()]).toEqual([
      200,
      expect.stringContaining('<h1>Gatehouse</h1>'),
    ]);
    expect((await fetch(url)).status).toBe(401);
    await interrupt(program);
  });

  test('--watch reloads a changed handler, and keeps the former one if the change is broken', async () => {
    const handlers = join(folder, 'handlers');
    mkdirSync(handlers);
    const write = (message: string) =>
      writeFileSync(
        join(handlers, 'names.ts'),
        `import { defineHandler } from '@gatehouse-dev/gatehouse';
         export default defineHandler({
           match: { apiGroups: [''], resources: ['configmaps'] },
           reads: ['unserved.example.com'],
           validate: ({ metadata }, context) => {
             if (metadata.name === 'refused') context.deny('${message}');
           },
         });`,
      );
    write('first');
    const program = start('--no-tour', '--handlers', handlers, '--watch');
    const kubeconfig = await kubeconfigIn(program);
    const refusal = () =>
      withClient(kubeconfig, (client) =>
        client.create(configMaps, { metadata: { namespace: 'default', name: 'refused' } }, { dryRun: true }),
      ).then(() => 'allowed', String);
    await eventually('the first refusal', async () => (await refusal()).includes('first'));
    write('second');
    await eventually('the second refusal', async () => (await refusal()).includes('second'));
    writeFileSync(join(handlers, 'names.ts'), 'export default 1;');
    await eventually('a complaint', () => output(program).includes('The previous handlers remain active: '));
    expect(await refusal()).toContain('second');
    await interrupt(program);
  });

  test('--no-tour starts a cluster without the objects of the tour', async () => {
    const program = start('--no-tour');
    const list = await withClient(await kubeconfigIn(program), (client) => client.listAll(namespaces));
    expect(list.items.map(({ metadata }) => metadata?.name)).not.toContain('shop');
    await interrupt(program);
  });

  test('a port in use causes a message without a stack trace', async () => {
    const taken = createServer();
    const port = await listen(taken);
    try {
      const program = start('--port', String(port));
      expect((await program.exited).code).toBe(1);
      expect(output(program)).toBe(
        `error: port ${port} is in use: choose another port with --port, or a free one with --port 0\n`,
      );
      expect(temporaryFiles()).toEqual([]);
    } finally {
      taken.close();
    }
  });
});
