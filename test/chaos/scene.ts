/** Everything that a run of the chaos suite needs: control plane, replicas, load, and the account of what becomes of it. */
import { secrets, services } from '../../src/kube/well-known.ts';
import { resourcePath } from '../../src/kube/object.ts';
import type { SettingName } from '../../src/config/settings.ts';
import {
  createNamespace,
  established,
  localService,
  startClusterFor,
  type Cluster,
} from '../support/cluster.ts';
import type { ControlPlaneProcesses } from '../support/control-plane.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { startLoad, type Load } from '../support/load.ts';
import { eventually } from '../support/processes.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';
import { createPlainClient, CONNECTIONS, type Client } from './client.ts';
import { startFront, type Front } from './front.ts';
import {
  kindManifests,
  LASTING_RACKS,
  LOAD_NAMESPACES,
  machine,
  machinePolicy,
  MACHINES,
  rack,
  rackPolicy,
  RACKS,
} from './kinds.ts';
import { SLOTS, startReplicas, type Replicas } from './replicas.ts';
import { createTally, type Outage, type Tally } from './tally.ts';
import { createTraffic, type Traffic } from './traffic.ts';

export interface Scene {
  readonly isShort: boolean;
  readonly seeded: Seeded;
  readonly cluster: Cluster;
  readonly processes: ControlPlaneProcesses;
  readonly client: Client;
  readonly front: Front;
  readonly replicas: Replicas;
  readonly tally: Tally;
  readonly traffic: Traffic;
  readonly load: Load;
  readonly stamps: Stamps;
  readonly outages: readonly Outage[];
  /** Does `work` while requests may fail because the API server or etcd is away; with what follows until it answers again. */
  readonly withOutage: <T>(work: () => Promise<T>) => Promise<T>;
  readonly stop: () => Promise<void>;
}

/** Which labels the policy sets. */
export interface Stamps {
  /** Those that an answer may show now. */
  readonly valid: () => readonly string[];
  readonly ever: () => ReadonlySet<string>;
  /** From now on this one may show too; the function returned ends the time of those before it. */
  readonly begin: (stamp: string) => () => void;
}

const STORED_AGAIN_MS = 60_000;
/**
 * How often the API server asks Gatehouse about what one act of the load does, on average over their weights: twice about a Machine that
 * is created or changed, by the mutating and the validating webhook, once about a Rack, and not at all about a Machine that goes.
 */
const REVIEWS_PER_ACT = 1.9;
/** Services with a serving cert, which are judged at the end. */
export const SERVICES = ['web', 'db'] as const;

/**
 * A claim to a unique value is kept until a request that nobody answered for must be over: after the 60 s that the API server
 * gives a request, unless told otherwise. Then nothing could have converged after 30 s.
 */
const REQUEST_TIMEOUT = '12s';

const SETTINGS: Partial<Record<SettingName, string>> = {
  'ca-propagation-wait': '1s',
  'ca-grace': '2s',
  'restore-settle': '2s',
  'drain-delay': '3s',
  'unique-settle': '22s',
};
/** The short run has no time to wait for a lease of 15 s to run out, twice. */
const SHORT_LEASE: Partial<Record<SettingName, string>> = {
  'lease-duration': '6s',
  'renew-deadline': '4s',
  'retry-period': '1s',
};

export interface SceneOptions {
  readonly seed: number;
  readonly isShort: boolean;
  /** Admission reviews a second. */
  readonly rate: number;
}

export async function startScene({ seed, isShort, rate }: SceneOptions): Promise<Scene> {
  const ends: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  };
  try {
    const front = await startFront();
    ends.push(front.stop);
    const cluster = await startClusterFor(front.port, {
      controllers: ['clusterrole-aggregation'],
      apiServerFlags: [`--request-timeout=${REQUEST_TIMEOUT}`],
    });
    ends.push(cluster.stop);
    const { processes } = cluster.plane;
    if (processes === undefined) throw new Error('this needs a real control plane');
    await installKinds(cluster);
    const settings = { ...SETTINGS, ...(isShort ? SHORT_LEASE : {}) };
    const replicas = await startReplicas(cluster, front, settings);
    ends.push(replicas.stop);
    await Promise.all(SLOTS.map((slot) => replicas.start(slot)));
    await enforce(cluster);

    const seeded = createSeeded(seed);
    const client = createPlainClient(cluster.plane);
    ends.push(client.stop);
    const tally = createTally();
    const stamps = createStamps('r0');
    const traffic = createTraffic({ client, seeded, tally, stamps: stamps.valid });
    await traffic.prepare();
    await eventually('a Rack in which something stands is kept', async () => {
      const path = `${resourcePath(RACKS, { name: LASTING_RACKS[0] })}?dryRun=All`;
      return (await client.ask('DELETE', path)).message.includes('still named by');
    });
    const load = startLoad({ perSecond: rate / REVIEWS_PER_ACT, lanes: CONNECTIONS, request: traffic.next });
    ends.push(load.stop);
    const outages: Outage[] = [];
    return {
      ...{
        isShort,
        seeded,
        cluster,
        processes,
        client,
        front,
        replicas,
        tally,
        traffic,
        load,
        stamps,
        outages,
      },
      withOutage: (work) => duringOutage(outages, client, work),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function installKinds(cluster: Cluster): Promise<void> {
  await cluster.apply(...kindManifests);
  for (const { resource, group } of [MACHINES, RACKS]) await established(cluster, `${resource}.${group}`);
  for (const name of ['shop', ...LOAD_NAMESPACES]) await createNamespace(cluster, name);
  for (const name of LASTING_RACKS) await cluster.admin.create(RACKS, rack(name));
  for (const name of SERVICES) {
    const annotations = { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` };
    await cluster.admin.create(services, localService('shop', name, 443, annotations));
  }
}

/** Until the API server asks about Machines. */
async function enforce(cluster: Cluster): Promise<void> {
  await cluster.apply(machinePolicy('r0'), rackPolicy);
  for (const name of ['machines', 'racks']) await seeInForce(cluster, name);
  for (const name of SERVICES) await cluster.see(name, secrets, { namespace: 'shop', name: `${name}-tls` });
  const probe = machine('east', 'probe', { rack: 'nowhere' });
  await eventually('a Machine without its rack is refused, and one with it is stamped', async () => {
    const [bad, good] = await Promise.allSettled([
      cluster.admin.create(MACHINES, probe, { dryRun: true }),
      cluster.admin.create(MACHINES, machine('east', 'probe', { rack: 'rack-0' }), { dryRun: true }),
    ]);
    return (
      bad.status === 'rejected' &&
      String(bad.reason).includes('spec.rack') &&
      good.status === 'fulfilled' &&
      good.value.metadata?.labels?.stamp === 'r0'
    );
  });
}

function createStamps(first: string): Stamps {
  let valid: readonly string[] = [first];
  const ever = new Set(valid);
  return {
    valid: () => valid,
    ever: () => ever,
    begin: (stamp) => {
      valid = [...valid, stamp];
      ever.add(stamp);
      return () => {
        valid = [stamp];
      };
    },
  };
}

/** The outage ends with the first request that gets through to storage, or when nobody waits for that any more. */
async function duringOutage<T>(outages: Outage[], client: Client, work: () => Promise<T>): Promise<T> {
  const outage: Outage = { from: performance.now(), to: undefined };
  outages.push(outage);
  try {
    const result = await work();
    await eventually('the API server stores again', () => isStored(client), {
      timeoutMs: STORED_AGAIN_MS,
      everyMs: 50,
    });
    return result;
  } finally {
    outage.to = performance.now();
  }
}

/** Not by a dry run: that would be answered without storage. */
async function isStored(client: Client): Promise<boolean> {
  const path = resourcePath(RACKS, { name: LASTING_RACKS[0] });
  const change = { metadata: { annotations: { seen: String(Math.round(performance.now())) } } };
  return (await client.ask('PATCH', path, change)).code === 200;
}
