// suite: own-plane, sandbox: no (it does not run etcd), slow, nightly
/** C4: etcd is restored from a snapshot while two replicas keep running. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, leases, secrets, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  askForCertificate,
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
import {
  enforceExamples,
  outcomeOf,
  seeInForce,
  startReplicas,
  webhooksOf,
} from '../support/gatehouse-cluster.ts';
import { isLeading, type Replica, sumOf } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import {
  configMap,
  datacenter,
  inShop,
  server,
  serversPolicy,
  text,
  type Conditioned,
  type SecretObject,
} from '../support/objects.ts';
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
    const options = { settings: SETTINGS, own: true, arrangement: 'both' } as const;
    ({ cluster, replicas } = await startReplicas(['one', 'two'], options));
    if (cluster.plane.processes === undefined) throw new Error('a real control plane has processes');
    processes = cluster.plane.processes;
    await enforceExamples(cluster);
    await cluster.apply(
      serversPolicy('serials', { validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } }),
    );
    await seeInForce(cluster, 'serials');
  });

  afterAll(() => cluster.stop());

  const rollbacks = (replica: Replica) => sumOf([replica], 'gatehouse_rollbacks_detected_total');

  const create = (name: string, wanted: string) =>
    cluster.admin.create(SERVERS, server('shop', name, wanted), { dryRun: true });

  const withSerial = (name: string, serial: string): KubeObject & { readonly spec: object } => ({
    ...server('shop', name, 'fra1'),
    spec: { datacenter: 'fra1', serial },
  });

  /** By every webhook replica: the balancer takes turns. */
  const isAlways = async (verdict: RegExp, attempt: () => Promise<unknown>): Promise<boolean> => {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => outcomeOf(attempt())));
    return outcomes.every((outcome) => verdict.test(outcome));
  };

  const revision = async () => {
    const { metadata } = await cluster.admin.list(configMaps, { limit: 1 });
    return Number(metadata.resourceVersion);
  };

  /** The watches of frozen replicas end at a revision that the restored cluster has passed when they continue. */
  async function writePast(lost: number): Promise<void> {
    // The API server's watch cache of a kind begins with the first request: a later one would refuse old watches.
    for (const kind of [ADMISSION_POLICIES, DATACENTERS, SERVERS]) await cluster.admin.list(kind);
    expect(await revision()).toBeLessThan(lost);
    for (let now = await revision(); now <= lost; now = await revision())
      await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          cluster.admin.create(configMaps, configMap(`filler-${now}-${index}`, {}, { namespace: 'default' })),
        ),
      );
  }

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
  async function whenTrusted(database: string): Promise<void> {
    await soon('a certificate of a Service that the published bundle trusts', async () => {
      const [tls, map] = [
        await read(secrets, { namespace: 'shop', name: `${database}-tls` }),
        await read(configMaps, BUNDLE),
      ];
      const presented = { chain: text(tls ?? {}, 'tls.crt'), privateKey: text(tls ?? {}, 'tls.key') };
      return (await nodeVerdict(presented, map?.data?.['ca.crt'] ?? '', `${database}.shop.svc`)) === 'ok';
    });
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
    ['passed', 'at the revision of the snapshot, and passes the lost revisions before Gatehouse reads again'],
    ['plain', 'at the revision of the snapshot'],
    ['bumped', 'with an increased revision, and all earlier revisions compacted'],
  ] as const;

  test.each(ways.filter(([round]) => isNightly || round === 'passed'))(
    '%s: etcd starts %s: Gatehouse detects it, lists everything again, repairs and sweeps',
    async (round) => {
      const snapshot = join(cluster.plane.folder, `snapshot-${round}`);
      await cluster.admin.create(DATACENTERS, datacenter(`kept-${round}`));
      await cluster.admin.create(SERVERS, withSerial(`held-${round}`, `held-${round}`));
      await askForCertificate(cluster, 'shop', `db-${round}`);
      await whenTrusted(`db-${round}`);
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
      await cluster.admin.delete(SERVERS, inShop(`held-${round}`));
      await cluster.admin.create(SERVERS, withSerial(`later-${round}`, `free-${round}`));
      const rule = { expression: `object.metadata.name != 'probe'`, message: 'a lost rule' };
      await cluster.apply(serversPolicy(`lost-${round}`, { validate: { rules: [rule] } }));
      await soon('the later policy is in force', () =>
        isAlways(/a lost rule/, () => create('probe', 'fra1')),
      );
      const before = {
        epoch: await epoch(),
        rollbacks: await Promise.all(replicas.map(rollbacks)),
        windows: (await windows()).map(({ metadata }) => metadata?.name),
        revision: await revision(),
      };
      if (round === 'passed') for (const { program } of replicas) program.kill('SIGSTOP');

      await processes.stop();
      restoreSnapshot(processes, snapshot);
      if (round === 'bumped') await bumpRevision(await processes.startEtcd(), 5_000);
      await processes.start();
      if (round === 'passed') await writePast(before.revision);
      for (const { program } of replicas) program.kill('SIGCONT');

      await soon('both replicas notice', async () => {
        const now = await Promise.all(replicas.map(rollbacks));
        return now.every((count, index) => count > (before.rollbacks[index] ?? 0));
      });
      await soon('the epoch goes on above all that were', async () => (await epoch()) > before.epoch);
      await whenTrusted(`db-${round}`);
      await soon('what was deleted since the snapshot is there again', () =>
        isAlways(/^allowed$/, () => create('probe', `kept-${round}`)),
      );
      await soon('what was made since the snapshot is gone', () =>
        isAlways(/spec\.datacenter/, () => create('probe', `lost-${round}`)),
      );
      await soon('a value that was freed since the snapshot is held again', () =>
        isAlways(/spec\.serial/, () =>
          cluster.admin.create(SERVERS, withSerial('probe', `held-${round}`), { dryRun: true }),
        ),
      );
      await cluster.admin.create(SERVERS, withSerial(`again-${round}`, `free-${round}`));
      await soon('one window of the rollback, swept', async () => {
        const made = (await windows()).filter(({ metadata }) => !before.windows.includes(metadata?.name));
        expect(made.length).toBeLessThanOrEqual(1);
        return made.find(({ status }) =>
          status?.conditions?.some(({ type, status: is }) => type === 'SweepComplete' && is === 'True'),
        );
      });
      const sources = (await windows()).filter(({ metadata }) => !before.windows.includes(metadata?.name));
      expect(sources).toMatchObject([{ spec: { source: { type: 'Rollback' } } }]);
      const leading = await Promise.all(replicas.map(isLeading));
      expect(leading.filter(Boolean)).toHaveLength(1);
    },
    400_000,
  );
});
