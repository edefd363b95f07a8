// suite: shared-plane, sandbox: long, slow
/** Restores while Gatehouse, Velero or the network fails. The ids are those of research/restore.md. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { startApiProxy, type OwnAnswer } from '../support/api-proxy.ts';
import { type Balancer } from '../support/balancer.ts';
import { createNamespace, RESTORE_WINDOWS, type Cluster, untilGone } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { condition, restoreWindow } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { application, APPLICATIONS, zone, ZONES } from '../support/restore-kinds.ts';
import {
  asReturned,
  enforceApplications,
  installKinds,
  isVerified,
  seeReportOf,
  seeWindowOf,
  trustVelero,
  untilDetectorCounts,
  untilDetectorIsProcessed,
  verdictOf,
  windowNameOf,
} from '../support/restore-scene.ts';
import { startSlowWebhook } from '../support/slow-webhook.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';
import { createToolClient, RESTORES, VELERO, type BackupObject } from '../support/velero-client.ts';
import { seePhase, startBalanced } from '../support/gatehouse-cluster.ts';

let balancer: Balancer;
let cluster: Cluster;
let velero: Velero;
let restorer: KubeClient;
const replicas = new Map<string, Replica>();

beforeAll(async () => {
  ({ balancer, cluster } = await startBalanced());
  await installKinds(cluster);
  await installVelero(cluster);
  await Promise.all(['prod', 'other'].map((name) => createNamespace(cluster, name)));
  await serve('one');
  await enforceApplications(cluster);
  await trustVelero(cluster);
  velero = createVelero(cluster.plane);
  restorer = cluster.impersonate(VELERO);
  await untilDetectorCounts(cluster);
});

afterAll(async () => {
  await velero.stop();
  await cluster.stop();
});

/** A sweep covers the whole cluster: dangling references of one test would be in every later report. */
afterEach(async () => {
  const { items } = await cluster.admin.listAll(APPLICATIONS);
  for (const { metadata } of items)
    await cluster.admin.delete(APPLICATIONS, { namespace: metadata?.namespace, name: metadata?.name ?? '' });
});

/** Starts a replica, and makes it the only one that the API server calls. */
async function serve(name: string, kubeconfig?: string): Promise<Replica> {
  const replica = await startReplica(cluster.plane, {
    name,
    servicePort: balancer.port,
    ...(kubeconfig === undefined ? {} : { settings: { kubeconfig } }),
  });
  replicas.set(name, replica);
  await replica.whenReady();
  await route(replica);
  return replica;
}

async function route(...to: readonly Replica[]): Promise<void> {
  balancer.setBackends(to.map(({ port }) => port));
  await balancer.cut(1);
}

const refusedForAll = (name: string) =>
  verdictOf(restorer, application('prod', name, { zone: 'no' }), { dryRun: true });

/** Applications before their targets: each names a Zone that comes after all Applications. */
const backupOf = (prefix: string, count: number): readonly BackupObject[] =>
  Array.from({ length: count }, (_, index) => [
    asReturned(
      application(index % 2 === 0 ? 'prod' : 'other', `${prefix}-${index}`, { zone: `${prefix}-${index}` }),
    ),
    asReturned(zone(`${prefix}-${index}`)),
  ]).flat();

const withoutZones = (backup: readonly BackupObject[]) => backup.filter(({ kind }) => kind !== ZONES.kind);

/** Never answers the requests that `fits` selects, like a watch that has gone silent. */
const holding =
  (fits: (method: string, path: string) => boolean): OwnAnswer =>
  (method, path) =>
    fits(method, path) ? new Promise(() => undefined) : undefined;

test('B1: a replica whose watches miss a restore still accepts the first object of the restore', async () => {
  const proxy = await startApiProxy(
    cluster.plane,
    'deaf',
    holding((_method, path) => /(restorewindows|restores)\?.*watch=/.test(path)),
  );
  const deaf = await serve('deaf', proxy.kubeconfig('gatehouse'));
  expect((await velero.restore({ name: 'b1', backup: backupOf('b1', 6) })).errors).toEqual([]);
  const one = replicas.get('one');
  if (one !== undefined) await route(one);
  await deaf.program.stop(15_000);
  await proxy.stop();
  expect(isVerified(await seeReportOf(cluster, 'b1'))).toBe(true);
});

test('B2: a restore that ran without a leader has its window immediately, and its report from the next leader', async () => {
  const never: OwnAnswer = (method, path) =>
    method !== 'GET' && path.includes('/leases')
      ? { code: 409, body: { kind: 'Status', status: 'Failure', reason: 'Conflict', code: 409 } }
      : undefined;
  const proxy = await startApiProxy(cluster.plane, 'follower', never);
  const follower = await serve('follower', proxy.kubeconfig('gatehouse'));
  const leader = replicas.get('one');
  leader?.program.kill('SIGKILL');
  await leader?.program.exited;

  const backup = withoutZones(backupOf('b2', 3));
  expect((await velero.restore({ name: 'b2', backup })).errors).toEqual([]);
  const name = await windowNameOf(cluster, 'b2');
  expect(await cluster.admin.get(RESTORE_WINDOWS, { name })).toBeDefined();

  await serve('two');
  await follower.program.stop(15_000);
  await proxy.stop();
  const report = await seeWindowOf(
    cluster,
    'b2',
    'the report of a restore that had ended before',
    ({ status }) => status?.phase === 'CompletedWithViolations',
    60_000,
  );
  expect(report.status?.violations?.total).toBe(3);
  expect(condition(report, 'CheckedAtAdmission')).toBeUndefined(); // a replica was there
});

test('B5: when the window of a Restore that never ends expires, checks are enforced again and a sweep runs', async () => {
  await trustVelero(cluster, { settle: '2s', idle: '1s', maxDuration: '6s' });
  await untilDetectorIsProcessed(cluster);
  const run = await velero.begin({ name: 'b5', backup: withoutZones(backupOf('b5', 1)) });
  const began = Date.now();
  await run.write();
  await eventually('the restorer is refused', async () => (await refusedForAll('b5-late')) !== 'allowed', {
    timeoutMs: 60_000,
    everyMs: 100,
  });
  expect(Math.abs(Date.now() - began - 6_000)).toBeLessThan(5_000);
  const report = await seeReportOf(cluster, 'b5');
  expect(report.status?.closeReason).toBe('Expired');
  expect(report.status?.conditions).toContainEqual(
    expect.objectContaining({ type: 'Expired', status: 'True' }),
  );
  expect(report.status?.violations?.total).toBe(1);
  await run.fail();
  await trustVelero(cluster);
});

test('B6: an object that is admitted before the end of a restore and stored after it is in the final report', async () => {
  await trustVelero(cluster, { settle: '20s', idle: '1s' });
  await untilDetectorIsProcessed(cluster);
  const slow = await startSlowWebhook(cluster.admin);
  const other = createToolClient(cluster.plane);
  const run = await velero.begin({ name: 'b6', backup: [] });
  const late = application('prod', 'b6-late', { zone: 'b6-late' }, { labels: { slow: 'yes' } });
  const [posted] = [other.send('POST', '/apis/restore.example.com/v1/namespaces/prod/applications', late)];
  await slow.asked;
  await sleep(1_000); // the webhook call for this request happens at the same time, and Gatehouse answers
  await run.write();
  await run.finish();
  await seeWindowOf(
    cluster,
    'b6',
    'an interim sweep without the object',
    ({ status }) => status?.lastSweep?.interim === true && status.violations?.total === 0,
  );
  slow.release();
  expect((await posted).code).toBe(201);
  const report = await seeReportOf(cluster, 'b6');
  expect(report.status?.violations?.items.map(({ object }) => object.name)).toContain('b6-late');
  await other.stop();
  await slow.stop();
  await trustVelero(cluster);
});

test('B7: the window of a Restore that is deleted while it writes stays open until the end, and is swept then', async () => {
  const backup = backupOf('b7d', 4);
  let name = '';
  const { errors } = await velero.restore({
    name: 'b7d',
    backup,
    beforeItem: async (written) => {
      if (written !== 2) return;
      name = await windowNameOf(cluster, 'b7d');
      await cluster.admin.delete(RESTORES, { namespace: 'velero', name: 'b7d' });
    },
  });
  expect(errors).toEqual([]);
  await untilGone(cluster, RESTORES, { namespace: 'velero', name: 'b7d' });
  await cluster.see('its report', RESTORE_WINDOWS, { name }, isVerified, 90_000);
});

test('each of three restores into one namespace reports its own object, and none what others broke', async () => {
  await cluster.admin.create(ZONES, zone('fleeting'));
  const old = await cluster.admin.create(APPLICATIONS, application('prod', 'old', { zone: 'fleeting' }));
  // Creation times have whole seconds: a restore that begins in the same second may have written the object.
  const nextSecond = Date.parse(old.metadata?.creationTimestamp ?? '') + 1_000;
  await eventually('the next second', () => Date.now() >= nextSecond);
  await cluster.admin.delete(ZONES, { name: 'fleeting' }); // no policy protects the Zone
  const names = ['first', 'second', 'third'];
  for (const name of names)
    expect((await velero.restore({ name, backup: withoutZones(backupOf(name, 1)) })).errors).toEqual([]);
  for (const name of names) {
    const { status } = await seeReportOf(cluster, name);
    expect(status?.violations?.items.map(({ object }) => object.name)).toEqual([`${name}-0`]);
  }
});

test('of restores and a window that are open at the same time, each report lists its own objects', async () => {
  const match = { namespaces: { include: ['other'] } };
  await cluster.admin.create(
    RESTORE_WINDOWS,
    restoreWindow('by-hand', { principals: [{ user: 'hand' }], match }),
  );
  await seePhase(cluster, 'by-hand', 'Open');
  const names = ['left', 'right'];
  const runs = await Promise.all(
    names.map((name) => velero.begin({ name, backup: withoutZones(backupOf(name, 2)) })),
  );
  await Promise.all(runs.map(({ write }) => write()));
  const hand = cluster.impersonate({ user: 'hand', groups: ['system:masters'] });
  await hand.create(APPLICATIONS, application('other', 'by-hand', { zone: 'no' }));
  for (const { finish } of runs) expect((await finish()).errors).toEqual([]);
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'by-hand' }, { spec: { close: true } });
  const namesIn = ({ status }: RestoreWindow) => status?.violations?.items.map(({ object }) => object.name);
  for (const name of names)
    expect(namesIn(await seeReportOf(cluster, name))?.toSorted()).toEqual([`${name}-0`, `${name}-1`]);
  const byHand = await seePhase(cluster, 'by-hand', 'CompletedWithViolations');
  expect(namesIn(byHand)).toEqual(['by-hand']);
});

test('B8: an interim sweep reports after the last write, although the phase does not change, and a final sweep follows', async () => {
  const run = await velero.begin({ name: 'b8', backup: withoutZones(backupOf('b8', 2)) });
  await run.write();
  const interim = await seeWindowOf(
    cluster,
    'b8',
    'an interim sweep',
    ({ status }) => status?.lastSweep?.interim === true && (status.violations?.total ?? 0) > 0,
  );
  expect(interim.status?.phase).toBe('Open');
  expect(await refusedForAll('b8-more')).toBe('allowed');
  await run.finish();
  const report = await seeReportOf(cluster, 'b8');
  expect(report.status?.lastSweep?.interim).toBe(false);
  const names = report.status?.violations?.items.map(({ object }) => object.name) ?? [];
  expect(names).toEqual(expect.arrayContaining(['b8-0', 'b8-1']));
});

test('B4: while no replica answers, the restorer passes and other users are blocked, and a later sweep checks its writes', async () => {
  for (const { program } of replicas.values()) program.kill('SIGKILL');
  await Promise.all([...replicas.values()].map(({ program }) => program.exited));
  const result = await velero.restore({ name: 'b4', backup: withoutZones(backupOf('b4', 2)) });
  // Creates pass. Updates fail closed: the policy has an immutable field, and no sweep finds that it has changed.
  const failed = result.errors.filter((error) => !error.startsWith('error patch for managed fields'));
  expect(failed).toEqual([]);
  const alice = await cluster.as('alice');
  expect(await verdictOf(alice, application('prod', 'b4-user', {}))).toContain('webhook');
  await serve('three');
  const report = await seeReportOf(cluster, 'b4');
  const names = report.status?.violations?.items.map(({ object }) => object.name) ?? [];
  expect(names).toEqual(expect.arrayContaining(['b4-0', 'b4-1']));
  expect(condition(report, 'CheckedAtAdmission')).toMatchObject({ status: 'False', reason: 'Unobserved' });
});
