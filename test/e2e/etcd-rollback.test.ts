// suite: own-plane, sandbox: no (it does not run etcd), slow, nightly
/** C4: etcd is restored from a snapshot while two replicas keep running. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, leases, secrets, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import {
  BUNDLE,
  DATACENTERS,
  LEASE,
  RESTORE_WINDOWS,
  SERVERS,
  SERVING,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import type { ControlPlaneProcesses } from '../support/control-plane.ts';
import { bumpRevision, restoreSnapshot, takeSnapshot } from '../support/etcd.ts';
import { rotateAuthority } from '../support/end-trust.ts';
import { enforceExamples, startReplicas, webhooksOf } from '../support/gatehouse-cluster.ts';
import { isLeading, type Replica, sumOf } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import { datacenter, server, text, type Conditioned, type SecretObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { presentedSerial } from '../support/tls.ts';
import { nodeVerdict } from '../support/trust-verdicts.ts';

const HOST = `gatehouse.${SYSTEM_NAMESPACE}.svc`;
const SETTINGS = { 'ca-propagation-wait': '1s' } as const;

let cluster: Cluster;
let processes: ControlPlaneProcesses;
let replicas: readonly Replica[] = [];

describe('C4: etcd is restored from a snapshot', () => {
  beforeAll(async () => {
    ({ cluster, replicas } = await startReplicas(['one', 'two'], { settings: SETTINGS, own: true }));
    if (cluster.plane.processes === undefined) throw new Error('a real control plane has processes');
    processes = cluster.plane.processes;
    await enforceExamples(cluster);
  });

  afterAll(() => cluster.stop());

  const rollbacks = (replica: Replica) => sumOf([replica], 'gatehouse_rollbacks_detected_total');

  const create = (name: string, wanted: string) =>
    cluster.admin.create(SERVERS, server('shop', name, wanted), { dryRun: true });

  /** After the restart, the API server may still be filling its own caches. */
  const soon = <T>(what: string, probe: () => Promise<T | undefined | false>) =>
    eventually(what, probe, { timeoutMs: 60_000, everyMs: 100 });

  const read = (resource: typeof secrets, ref: { readonly namespace: string; readonly name: string }) =>
    cluster.admin.get<SecretObject>(resource, ref);

  const epoch = async () =>
    Number(
      (await cluster.admin.get<KubeObject>(leases, LEASE))?.metadata?.annotations?.['gatehouse.dev/epoch'],
    );

  const windows = async () => (await cluster.admin.list<Conditioned>(RESTORE_WINDOWS)).items;

  /** Waits until stored, served and published certificates match again. */
  async function whenTrusted(): Promise<void> {
    await soon(
      'a serving certificate that the published bundles trust, presented by both replicas',
      async () => {
        const [served, map, webhooks] = [
          await read(secrets, SERVING),
          await read(configMaps, BUNDLE),
          await webhooksOf(cluster, validatingWebhookConfigurations),
        ];
        const bundle = map?.data?.['ca.crt'] ?? '';
        const presented = {
          chain: text(served ?? {}, 'tls.crt'),
          privateKey: text(served ?? {}, 'tls.key'),
        };
        if ((await nodeVerdict(presented, bundle, HOST)) !== 'ok') return false;
        const installed = webhooks.map(({ clientConfig: { caBundle = '' } }) =>
          Buffer.from(caBundle, 'base64').toString(),
        );
        const serials = await Promise.all(replicas.map(({ port }) => presentedSerial(port)));
        return (
          installed.length > 0 && installed.every((one) => one === bundle) && new Set(serials).size === 1
        );
      },
    );
  }

  const ways = [
    ['at the revision of the snapshot', 0],
    ['with an increased revision, and all earlier revisions compacted', 5_000],
  ] as const;

  test.each(ways.filter(([, bump]) => isNightly || bump === 0))(
    'etcd starts %s: Gatehouse detects it, lists everything again, repairs and sweeps',
    async (_how, bump) => {
      const round = bump === 0 ? 'plain' : 'bumped';
      const snapshot = join(cluster.plane.folder, `snapshot-${round}`);
      await cluster.admin.create(DATACENTERS, datacenter(`kept-${round}`));
      const atFirst = await Promise.all(replicas.map(rollbacks));
      await processes.stop();
      takeSnapshot(processes, snapshot);
      await processes.start();
      await soon('the API server is back', () => create('probe', 'fra1'));

      await rotateAuthority(cluster, round);
      expect(await Promise.all(replicas.map(rollbacks)), 'a restart is no rollback').toEqual(atFirst);
      await cluster.admin.create(DATACENTERS, datacenter(`lost-${round}`));
      await soon('the later datacenter is known', () => create('probe', `lost-${round}`));
      await cluster.admin.delete(DATACENTERS, { name: `kept-${round}` });
      const before = {
        epoch: await epoch(),
        rollbacks: await Promise.all(replicas.map(rollbacks)),
        windows: (await windows()).map(({ metadata }) => metadata?.name),
      };

      await processes.stop();
      restoreSnapshot(processes, snapshot);
      if (bump > 0) await bumpRevision(await processes.startEtcd(), bump);
      await processes.start();

      await soon('both replicas notice', async () => {
        const now = await Promise.all(replicas.map(rollbacks));
        return now.every((count, index) => count > (before.rollbacks[index] ?? 0));
      });
      await soon('the epoch goes on above all that were', async () => (await epoch()) > before.epoch);
      await whenTrusted();
      await soon('what was deleted since the snapshot is there again', () =>
        create('probe', `kept-${round}`),
      );
      await soon('what was made since the snapshot is gone', () =>
        create('probe', `lost-${round}`).then(
          () => false,
          (error: unknown) => String(error).includes('spec.datacenter'),
        ),
      );
      await soon('one window of the rollback, swept', async () => {
        const made = (await windows()).filter(({ metadata }) => !before.windows.includes(metadata?.name));
        expect(made.length).toBeLessThanOrEqual(1);
        return made.find(({ status }) =>
          status?.conditions?.some(({ type, status: is }) => type === 'SweepComplete' && is === 'True'),
        );
      });
      const leading = await Promise.all(replicas.map(isLeading));
      expect(leading.filter(Boolean)).toHaveLength(1);
    },
    400_000,
  );
});
