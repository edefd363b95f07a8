// suite: shared-plane, sandbox: long
/**
 * Gatehouse under Node's permission model, with the flags of docs/security.md: it may read a few files, and nothing
 * else.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { DATACENTERS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { enforceExamples, untilRefused, untilServersChecked } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { handlerFolder } from '../support/handler-folder.ts';
import { MAIN } from '../support/main-module.ts';
import { datacenter } from '../support/objects.ts';
import { freePort } from '../support/processes.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const flags = [
  ...readFileSync(join(ROOT, 'docs', 'security.md'), 'utf8').matchAll(/^ +(?<flag>--[\w-]+(?:=\S+)?)$/gm),
].map(({ groups }) => groups?.flag ?? '');

/** Each attempt is a forbidden action. The name of the Datacenter selects it, and the denial reports the outcome. */
const HANDLER = `
  import { spawnSync } from 'node:child_process';
  import { readFileSync, writeFileSync } from 'node:fs';
  import { tmpdir } from 'node:os';
  import { dirname, join } from 'node:path';
  import { Worker } from 'node:worker_threads';

  const attempts = {
    read: () => readFileSync('/etc/passwd'),
    environment: () => readFileSync('/proc/self/environ'),
    write: () => writeFileSync(join(tmpdir(), 'gatehouse-was-here'), ''),
    run: () => { const { error } = spawnSync('/bin/true'); if (error) throw error; },
    work: () => new Worker('1', { eval: true }),
    load: () => process.dlopen({ exports: {} }, '/nowhere.node'),
  };

  export default defineHandler({
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['datacenters'] },
    validate(object, context) {
      const attempt = attempts[context.request.name];
      if (attempt === undefined) return;
      try {
        attempt();
        context.deny('it may');
      } catch (error) {
        context.deny(String(error.code));
      }
    },
  });
`;

let cluster: Cluster;
let replica: Replica;
const handlers = handlerFolder({ 'attempts.js': HANDLER });

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port);
  const here = flags.map((flag) =>
    flag
      .replace('=/gatehouse', `=${ROOT}`)
      .replace('=/var/run/secrets/kubernetes.io/serviceaccount', `=${cluster.plane.folder}`),
  );
  replica = await startReplica(cluster.plane, {
    name: 'confined',
    port,
    settings: { handlers },
    env: {
      NODE_OPTIONS: [...here, ...[handlers, dirname(MAIN)].map((path) => `--allow-fs-read=${path}`)].join(
        ' ',
      ),
    },
  });
  await replica.whenReady();
  await enforceExamples(cluster);
});

afterAll(() => cluster.stop());

test('a confined replica leads, enforces policies, and has process metrics', async () => {
  expect(flags).toContain('--permission');
  await untilServersChecked(cluster);
  const metrics = await replica.metrics();
  for (const name of ['process_resident_memory_bytes', 'process_open_fds', 'process_max_fds'])
    expect(Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]), name).toBeGreaterThan(0);
});

test.each([
  ['read', 'ERR_ACCESS_DENIED'],
  ['environment', 'ERR_ACCESS_DENIED'],
  ['write', 'ERR_ACCESS_DENIED'],
  ['run', 'ERR_ACCESS_DENIED'],
  ['work', 'ERR_ACCESS_DENIED'],
  ['load', 'ERR_DLOPEN_DISABLED'],
])('a loaded handler cannot %s', async (attempt, code) => {
  await untilRefused('the attempt', code, () =>
    cluster.admin.create(DATACENTERS, datacenter(attempt), { dryRun: true }),
  );
});
