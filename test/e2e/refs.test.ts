// suite: shared-plane, sandbox: yes
/** `gatehouse refs` shows the same references in a cluster and in files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { createNamespace, DATACENTERS, SERVERS, type Cluster } from '../support/cluster.ts';
import type { User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { datacenter, server } from '../support/objects.ts';
import { runGatehouse, writeFiles, type Ran } from '../support/review-command.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const NAMES = ['web-1', 'web-2', 'web-3'];

let cluster: Cluster;
let replica: Replica;
let folder: string;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ controllers: ['clusterrole-aggregation'] }));
  await enforceExamples(cluster);
  await createNamespace(cluster, 'refs');
  await cluster.admin.create(DATACENTERS, datacenter('hel1'));
  for (const name of NAMES) await cluster.admin.create(SERVERS, server('refs', name, 'hel1'));
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-refs-'));
  const objects = [datacenter('hel1'), ...NAMES.map((name) => server('refs', name, 'hel1'))];
  writeFiles(folder, Object.fromEntries(objects.map((one, index) => [`${index}.json`, JSON.stringify(one)])));
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

const refsAs = (user: User, ...args: readonly string[]): Promise<Ran> =>
  runGatehouse(['refs', ...args, '--kubeconfig', cluster.plane.kubeconfig(user)]);

test('a target lists the objects that name it, and an object its target', async () => {
  const target = await refsAs('admin', 'Datacenter/hel1');
  expect(target).toMatchObject({ code: 0, stderr: '' });
  for (const name of NAMES)
    expect(target.stdout).toContain(`servers.infra.example.com refs/${name}   spec.datacenter`);
  const { stdout } = await refsAs('admin', 'servers/web-1', '-n', 'refs', '-o', 'dot');
  expect(stdout).toContain('-> "datacenters.infra.example.com//hel1" [label="spec.datacenter"]');
});

test('files give the same answer as the cluster', async () => {
  const online = await refsAs('admin', 'datacenters.infra.example.com/hel1', '-o', 'json');
  const offline = await runGatehouse([
    ...['refs', 'datacenters.infra.example.com/hel1', '-o', 'json', '-f', folder, '-p', EXAMPLES],
  ]);
  expect(online.code).toBe(0);
  expect(JSON.parse(offline.stdout)).toEqual(JSON.parse(online.stdout));
});

test('an object that does not exist gives exit code 1, and a kind without references 2', async () => {
  const absent = await refsAs('admin', 'Datacenter/nowhere');
  expect(absent).toMatchObject({ code: 1, stdout: '' });
  expect(absent.stderr).toContain('datacenters.infra.example.com "nowhere" does not exist');
  const foreign = await refsAs('admin', 'configmaps/a');
  expect(foreign.code).toBe(2);
  expect(foreign.stderr).toContain(
    'no reference connects the kind "configmaps", only datacenters.infra.example.com',
  );
});
