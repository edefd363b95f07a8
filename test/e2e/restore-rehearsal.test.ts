// suite: shared-plane, sandbox: long
/** A scheduled rehearsal: with the permissions of its component, its result, Events and metrics. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, events } from '../../src/kube/well-known.ts';
import { SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { enforceExamples, refusal, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import type { EventObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { runGatehouse, writeFiles } from '../support/review-command.ts';

const COMPONENT = join(import.meta.dirname, '..', '..', 'deploy', 'components', 'restore-rehearsal');
const RESULT = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-restore-rehearsal' };

let cluster: Cluster;
let replica: Replica;
let bucket: string;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await enforceExamples(cluster);
  const manifests = readManifests(COMPONENT).filter(
    ({ kind }) => kind !== 'CronJob' && kind !== 'ServiceAccount',
  );
  await cluster.apply(...manifests.map((object) => ('subjects' in object ? boundToAlice(object) : object)));
  bucket = mkdtempSync(join(tmpdir(), 'gatehouse-bucket-'));
});

afterAll(async () => {
  rmSync(bucket, { recursive: true });
  await cluster.stop();
});

const boundToAlice = (binding: KubeObject): KubeObject & { readonly subjects: readonly object[] } => ({
  ...binding,
  subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: USERS.alice.name }],
});

/** A backup of Servers, as Velero stores it; the folder takes the place of the archive. */
function backUp(day: number, servers: Readonly<Record<string, string>>): void {
  const name = `nightly-${day}`;
  const inside = `backups/${name}/${name}.tar.gz`;
  const object = (server: string, datacenter: string) => ({
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { namespace: 'shop', name: server },
    spec: { datacenter, size: 's' },
  });
  writeFiles(bucket, {
    [`backups/${name}/velero-backup.json`]: JSON.stringify({
      status: { phase: 'Completed', startTimestamp: `2026-03-0${day}T01:00:00Z` },
    }),
    [`${inside}/metadata/version`]: '1.1.0',
    [`${inside}/resources/datacenters.infra.example.com/cluster/fra1.json`]: JSON.stringify({
      apiVersion: 'infra.example.com/v1',
      kind: 'Datacenter',
      metadata: { name: 'fra1' },
    }),
    ...Object.fromEntries(
      Object.entries(servers).map(([server, datacenter]) => [
        `${inside}/resources/servers.infra.example.com/namespaces/shop/${server}.json`,
        JSON.stringify(object(server, datacenter)),
      ]),
    ),
  });
}

const rehearse = () =>
  runGatehouse([
    ...['restore', 'rehearse', '--newest-in', bucket, '--policies-from-cluster', '--record'],
    ...['--kubeconfig', cluster.plane.kubeconfig('alice')],
  ]);

const result = async () =>
  (await cluster.admin.get<KubeObject & { readonly data?: object }>(configMaps, RESULT))?.data;

const noted = async (): Promise<readonly string[]> => {
  const { items } = await cluster.admin.listAll<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
  return items
    .filter(({ involvedObject }) => involvedObject.name === RESULT.name)
    .map(({ type, reason, message }) => `${type} ${reason}: ${message}`)
    .toSorted();
};

const seeMetric = (name: string, value: number) =>
  eventually(`${name} is ${value}`, async () =>
    (await replica.metrics()).includes(`gatehouse_restore_rehearsal_${name} ${value}\n`),
  );

test('the account may do no more than the rehearsal needs', async () => {
  const alice = await cluster.as('alice');
  const other = { metadata: { namespace: SYSTEM_NAMESPACE, name: 'other' } };
  expect((await refusal(alice.create(configMaps, other))).code).toBe(403);
  expect((await refusal(alice.list(configMaps, { namespace: SYSTEM_NAMESPACE }))).code).toBe(403);
});

/** So that the alert about a missing rehearsal fires. */
const seeNoResult = async () => {
  const { creationTimestamp = '' } = (await cluster.admin.get(configMaps, RESULT))?.metadata ?? {};
  await seeMetric('timestamp_seconds', Date.parse(creationTimestamp) / 1_000);
  expect(await replica.metrics()).not.toMatch(/^gatehouse_restore_rehearsal_(new_)?problems \d/m);
};

test('before the first rehearsal has ended, the time of the ConfigMap counts', async () => {
  await seeNoResult();
});

test('the first rehearsal keeps its problems, and an Event and metrics report them', async () => {
  backUp(1, { db: 'gone' });
  const { code, stderr } = await rehearse();
  expect(stderr).not.toContain('error');
  expect(code).toBe(1);
  expect(await result()).toMatchObject({
    ...{ backup: 'nightly-1', backupTakenAt: '2026-03-01T01:00:00.000Z', problems: '1', newProblems: '0' },
    list: 'TargetMissing servers.infra.example.com shop/db\n',
  });
  expect(await noted()).toEqual([
    'Warning RehearsalProblems: a restore of nightly-1 would have 1 problem: TargetMissing servers.infra.example.com shop/db',
  ]);
  await seeMetric('problems', 1);
  await seeMetric('new_problems', 0);
  await seeMetric('backup_timestamp_seconds', Date.parse('2026-03-01T01:00:00Z') / 1_000);
});

test('a newer backup with one problem less and another one more is worse', async () => {
  backUp(2, { db: 'fra1', web: 'gone' });
  expect((await rehearse()).code).toBe(1);
  await seeMetric('new_problems', 1);
  expect(await noted()).toContain(
    'Warning RehearsalWorse: a restore of nightly-2 would have 1 new problem: TargetMissing servers.infra.example.com shop/web',
  );
});

test('the same problems again are not reported again', async () => {
  const before = await noted();
  expect((await rehearse()).code).toBe(1);
  await seeMetric('new_problems', 0);
  expect(await noted()).toEqual(before);
});

test('a clean backup ends with exit code 0', async () => {
  backUp(3, { db: 'fra1' });
  const { code, stdout } = await rehearse();
  expect(stdout).toContain('no problems');
  expect(code).toBe(0);
  await seeMetric('problems', 0);
  expect(await noted()).toContain('Normal RehearsalClean: a restore of nightly-3 would have no problems');
});

test('a failed rehearsal keeps the result, and says what is missing', async () => {
  const before = await result();
  backUp(4, { db: 'fra1' });
  writeFiles(bucket, { 'backups/nightly-4/nightly-4.tar.gz/metadata/version': '9' });
  const { code, stderr } = await rehearse();
  expect(stderr).toContain('format version "9" is not supported');
  expect(code).toBe(2);
  expect(await result()).toEqual(before);
});

test('a result that a user has edited into something else counts as none', async () => {
  const stored = await cluster.admin.get<KubeObject>(configMaps, RESULT);
  await cluster.admin.replace(configMaps, { ...stored, data: { finishedAt: 'never' } });
  await seeNoResult();
});
