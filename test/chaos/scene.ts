/** The environment of the chaos suite: control plane, replicas, load, and the tally of the results. */
import { secrets } from '../../src/kube/well-known.ts';
import { resourcePath } from '../../src/kube/object.ts';
import type { SettingName } from '../../src/config/settings.ts';
import {
  createNamespace,
  established,
  askForCertificate,
  startClusterFor,
  type Cluster,
} from '../support/cluster.ts';
import { startBalancer } from '../support/balancer.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { startLoad } from '../support/load.ts';
import { eventually } from '../support/processes.ts';
import { createSeeded } from '../support/seeded.ts';
import { createPlainClient } from '../support/plain-client.ts';
import {
  LASTING_RACKS,
  machine,
  machinePolicy,
  MACHINES,
  rack,
  rackPolicy,
  RACKS,
  LOAD_NAMESPACES,
  kindManifests,
} from './kinds.ts';
import { startReplicas } from './replicas.ts';
import { createTally, type Outage } from './oracle.ts';
import { createTraffic } from './traffic.ts';

export type Scene = Awaited<ReturnType<typeof startScene>>;

/**
 * The average number of webhook calls per request of the load, weighted by the mix. The API server calls Gatehouse
 * twice for a Machine that is created or changed (mutating and validating webhook), once for a Rack, and not for a
 * deleted Machine.
 */
const REVIEWS_PER_ACT = 1.9;
export const SERVICES = ['web', 'db'] as const;

/**
 * Claims to unique values last until a request with an unknown result must be over, which is the API server's request
 * timeout. With its default of 60 s, the claims could not converge within 30 s.
 */
const REQUEST_TIMEOUT = '12s';

const SETTINGS: Partial<Record<SettingName, string>> = {
  'ca-propagation-wait': '1s',
  'restore-settle': '2s',
  'drain-delay': '3s',
  'unique-settle': '22s',
};
/** In the short run, the default lease of 12 s would expire too late. */
const SHORT_LEASE: Partial<Record<SettingName, string>> = {
  'lease-duration': '6s',
  'renew-deadline': '4s',
  'retry-period': '1s',
};

export interface SceneOptions {
  readonly seed: number;
  readonly isShort: boolean;
  readonly rate: number;
}

/** The number of concurrent requests. It is high, so that requests without a response do not block the others. */
const CONNECTIONS = 96;

export async function startScene({ seed, isShort, rate }: SceneOptions) {
  const ends: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  };
  try {
    const balancer = await startBalancer();
    ends.push(balancer.stop);
    const cluster = await startClusterFor(balancer.port, {
      apiServerFlags: [`--request-timeout=${REQUEST_TIMEOUT}`],
    });
    ends.push(cluster.stop);
    await installKinds(cluster);
    const settings = { ...SETTINGS, ...(isShort ? SHORT_LEASE : {}) };
    const replicas = await startReplicas(cluster, balancer, settings);
    ends.push(replicas.stop);
    await Promise.all(replicas.slots.map((slot) => replicas.start(slot)));
    await enforce(cluster);

    const seeded = createSeeded(seed);
    const client = createPlainClient(cluster.plane, CONNECTIONS);
    ends.push(client.stop);
    const tally = createTally();
    const stamps = createStamps('r0');
    const traffic = createTraffic({ client, seeded, tally, stamps: stamps.valid });
    await traffic.prepare();
    await eventually('a Rack with Machines is protected', async () => {
      const path = `${resourcePath(RACKS, { name: LASTING_RACKS[0] })}?dryRun=All`;
      return (await client.ask({ method: 'DELETE', path })).text.includes('still referenced by');
    });
    const load = startLoad({ perSecond: rate / REVIEWS_PER_ACT, lanes: CONNECTIONS, request: traffic.next });
    ends.push(load.stop);
    const outages: Outage[] = [];
    return {
      isShort,
      seeded,
      cluster,
      client,
      replicas,
      tally,
      traffic,
      load,
      stamps,
      outages,
      /** Runs `work` while requests may fail because no webhook replica runs. */
      withOutage: async <T>(work: () => Promise<T>) => {
        const outage: Outage = { from: performance.now(), to: undefined };
        outages.push(outage);
        try {
          return await work();
        } finally {
          outage.to = performance.now();
        }
      },
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
  for (const name of SERVICES) await askForCertificate(cluster, 'shop', name);
}

async function enforce(cluster: Cluster): Promise<void> {
  await cluster.apply(machinePolicy('r0'), rackPolicy);
  for (const name of ['machines', 'racks']) await seeInForce(cluster, name);
  for (const name of SERVICES) await cluster.see(name, secrets, { namespace: 'shop', name: `${name}-tls` });
  const probe = machine('east', 'probe', { rack: 'nowhere' });
  await eventually('a Machine without a rack is refused, and one with a rack gets the label', async () => {
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

function createStamps(first: string) {
  let valid: readonly string[] = [first];
  const ever = new Set(valid);
  return {
    valid: () => valid,
    ever: (): ReadonlySet<string> => ever,
    /** Allows this label in addition. The returned function disallows the earlier labels. */
    begin: (stamp: string) => {
      valid = [...valid, stamp];
      ever.add(stamp);
      return () => void (valid = [stamp]);
    },
  };
}
