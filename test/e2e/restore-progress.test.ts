// suite: shared-plane, sandbox: long
/** A slow sweep reports its progress while it runs, and publishes its report at the end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { RESTORE_WINDOWS, SERVERS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { enforceExamples } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { server } from '../support/objects.ts';
import { freePort } from '../support/processes.ts';

/** Longer than the time after which a sweep first reports its progress. */
const SLOW_MS = 4_000;

let cluster: Cluster;
let proxy: ApiProxy;
let replica: Replica;
let isSlow = false;
/** Resolves when the test has seen the progress. Until then, the report waits. */
const seen = Promise.withResolvers<undefined>();

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port);
  proxy = await startApiProxy(cluster.plane, 'slow', async (method, path, body) => {
    if (isSlow && JSON.stringify(body ?? {}).includes('"lastSweep"')) await seen.promise;
    if (isSlow && method === 'GET' && /\/servers\?.*limit=500/.test(path)) await sleep(SLOW_MS);
    return undefined;
  });
  replica = await startReplica(cluster.plane, {
    name: 'one',
    port,
    settings: { kubeconfig: proxy.kubeconfig('gatehouse') },
  });
  await replica.whenReady();
  await enforceExamples(cluster);
  await cluster.admin.create(SERVERS, server('shop', 'web', 'fra1'));
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await cluster.stop();
});

test('the status of a window shows the progress of a long sweep until the report replaces it', async () => {
  const name = 'drill';
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const spec = { principals: [{ user: 'velero' }], expiresAt };
  const window: RestoreWindow = { metadata: { name }, spec };
  await cluster.admin.create(RESTORE_WINDOWS, window);
  const see = (what: string, accept: (status: NonNullable<RestoreWindow['status']>) => boolean) =>
    cluster.see<RestoreWindow>(
      what,
      RESTORE_WINDOWS,
      { name },
      ({ status }) => status !== undefined && accept(status),
    );
  await see('the window is open', ({ phase }) => phase === 'Open');
  isSlow = true;
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });
  const { status } = await see('the progress', ({ currentSweep }) => currentSweep !== undefined);
  seen.resolve(undefined);
  expect(status?.currentSweep).toMatchObject({
    objectsScanned: 1,
    objectsTotal: 1,
    resource: 'servers.infra.example.com',
  });
  const last = await see('the final report', ({ phase }) => phase === 'Completed');
  expect(last.status?.lastSweep).toMatchObject({ interim: false, objectsScanned: 1 });
  expect(last.status?.currentSweep).toBeUndefined();
});
