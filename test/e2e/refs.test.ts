// suite: shared-plane, sandbox: long
/** `gatehouse refs` shows the same references in a cluster and in files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  SERVERS,
  type Cluster,
} from '../support/cluster.ts';
import type { User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import { eventually } from '../support/processes.ts';
import { datacenter, grant, server } from '../support/objects.ts';
import { runGatehouse, writeFiles, type Ran } from '../support/review-command.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const NAMES = ['web-1', 'web-2', 'web-3'];

let cluster: Cluster;
let folder: string;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await enforceExamples(cluster);
  await createNamespace(cluster, 'refs');
  await cluster.admin.create(DATACENTERS, datacenter('hel1'));
  for (const name of NAMES) await cluster.admin.create(SERVERS, server('refs', name, 'hel1'));
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-refs-'));
  const objects = [datacenter('hel1'), ...NAMES.map((name) => server('refs', name, 'hel1'))];
  writeFiles(folder, Object.fromEntries(objects.map((one, index) => [`${index}.json`, JSON.stringify(one)])));
});

afterAll(async () => {
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

test('a kind may have its short name, alone and in files', async () => {
  const online = await refsAs('admin', 'dc/hel1');
  expect(online).toMatchObject({ code: 0, stdout: (await refsAs('admin', 'Datacenter/hel1')).stdout });
  const offline = await runGatehouse(['refs', 'dc/hel1', '-f', folder, '-p', EXAMPLES]);
  expect(offline).toMatchObject({ code: 0, stdout: online.stdout });
});

test('an owner with the uid of an earlier object is not the object that has its name now', async () => {
  const uids = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];
  const [now = '', earlier = ''] = uids;
  const owner = { apiVersion: 'infra.example.com/v1', kind: 'Datacenter', name: 'hel1' };
  const [named, owned] = [datacenter('hel1'), server('refs', 'web-4', 'hel1')];
  const own = join(folder, 'owners');
  writeFiles(own, {
    'datacenter.json': JSON.stringify({ ...named, metadata: { ...named.metadata, uid: now } }),
    'server.json': JSON.stringify({
      ...owned,
      metadata: { ...owned.metadata, ownerReferences: [{ ...owner, uid: earlier }] },
    }),
  });
  const ran = await runGatehouse(['refs', 'Server/web-4', '-n', 'refs', '-f', own, '-p', EXAMPLES]);
  expect(ran).toMatchObject({ code: 0, stderr: '' });
  expect(ran.stdout).toContain('datacenters.infra.example.com hel1   spec.datacenter');
  expect(ran.stdout).toContain(
    `datacenters.infra.example.com hel1   owner reference to an earlier object with this name (uid ${earlier})   does not exist`,
  );
});

test('a user with permissions in one namespace sees its objects, and what is missing', async () => {
  const read = (apiGroup: string, ...resources: string[]) => ({
    ...{ apiGroups: [apiGroup], resources, verbs: ['get', 'list'] },
  });
  await cluster.apply(
    ...grant('refs-reader', ['alice'], [read('infra.example.com', 'servers')], 'refs'),
    ...grant(
      'refs-reader',
      ['alice'],
      [read('gatehouse.dev', 'admissionpolicies'), read('apiextensions.k8s.io', 'customresourcedefinitions')],
    ),
  );
  const ran = await eventually('the permissions of alice', async () => {
    const one = await refsAs('alice', 'Server/web-1', '-n', 'refs');
    return one.code === 0 ? one : undefined;
  });
  expect(ran.stdout).toContain('datacenters.infra.example.com hel1   spec.datacenter');
  expect(ran.stdout).toContain('unknown: its kind could not be read');
  expect(ran.stdout).toContain('nothing that could be read refers to it');
  expect(ran.stderr).toContain('datacenters.infra.example.com could not be read completely');
  expect(ran.stderr).toContain('servers.infra.example.com could be read only in the namespace refs');
  expect(ran.stderr).toContain('namespaces could not be read');
});

test('of a policy whose newest version is not in force, the version in force counts', async () => {
  const policy = await cluster.admin.get<AdmissionPolicy>(ADMISSION_POLICIES, { name: 'servers' });
  if (policy === undefined) throw new Error('the policy servers is missing');
  const { metadata, spec } = policy;
  const target = { apiGroup: 'infra.example.com', resource: 'nowheres' };
  const references = [{ name: 'nowhere', path: 'spec.nowhere', target }];
  await cluster.admin.patchMerge(
    ADMISSION_POLICIES,
    { name: 'servers' },
    { spec: { validate: { references } } },
  );
  const ran = await eventually('the note', async () => {
    const one = await refsAs('admin', 'dc/hel1');
    return one.stderr.includes('is in force') ? one : undefined;
  });
  expect(ran.stderr).toContain(`generation ${metadata.generation ?? 0} is in force`);
  for (const name of NAMES) expect(ran.stdout).toContain(`refs/${name}   spec.datacenter`);
  await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'servers' }, { spec });
});
