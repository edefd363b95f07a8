/** What happens to governed writes while pods, processes and parts of the cluster end, hang and come back. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { eventually } from '../support/processes.ts';
import { startGovernedLoad, type GovernedLoad } from '../support/node/governed-load.ts';
import {
  applyAndWait,
  govern,
  processesOf,
  refuses,
  rolledOut,
  startPodNode,
} from '../support/node/installed.ts';
import { NODE_NAME, type PartName } from '../support/node/node-files.ts';
import type { NodeCluster } from '../support/node/node.ts';

let node: NodeCluster;
let load: GovernedLoad;

beforeAll(async () => {
  node = await startPodNode();
  const seconds = await applyAndWait(node, '-k', 'deploy');
  console.log(`kubectl apply -k deploy: all pods ready after ${seconds.toFixed(1)} s`);
  expect(seconds).toBeLessThan(60);
  await govern(node);
  load = startGovernedLoad(node);
});
afterAll(async () => {
  load.print();
  await load.stop();
  await node.stop();
});

interface Bound {
  readonly failed: number;
  /** Seconds without service. */
  readonly dark: number;
}

/** Holds the load to a bound during an event. */
async function hold(event: string, { failed, dark }: Bound, work: () => Promise<unknown>): Promise<void> {
  const row = await load.during(event, work);
  const said = row.troubles.join('\n');
  expect(row.right, said).toBeGreaterThan(0);
  expect(row.wrong, said).toBe(0);
  expect(row.failed, said).toBeLessThanOrEqual(failed);
  expect(row.dark, said).toBeLessThanOrEqual(dark);
}

/** Requests in flight on a connection to a killed process. The API server does not repeat a POST. */
const IN_FLIGHT = 16;

const podsOf = async (component: string): Promise<readonly string[]> => {
  const label = `app.kubernetes.io/component=${component}`;
  const names = await node.inSystem('get', 'pods', '-l', label, '-o', 'name');
  return names.trim().split('\n');
};

describe('planned events disturb no write', () => {
  const none = { failed: 0, dark: 3 };

  it('a rolling restart of both Deployments', async () => {
    await hold('rolling restart', none, async () => {
      await node.inSystem('rollout', 'restart', 'deployment');
      await rolledOut(node);
    });
  });

  it('a drain evicts all pods but the last of each Deployment', async () => {
    await hold('drain', none, async () => {
      const flags = ['--ignore-daemonsets', '--delete-emptydir-data', '--force', '--timeout=15s'];
      await expect(node.kubectl('drain', NODE_NAME, ...flags)).rejects.toThrow(/disruption budget/);
      await node.kubectl('uncordon', NODE_NAME);
      await rolledOut(node);
    });
  });

  it('the end of each leader', async () => {
    await hold('delete of each controllers pod', none, async () => {
      for (const pod of await podsOf('controllers')) await node.inSystem('delete', pod);
      await rolledOut(node);
    });
  });
});

describe('a replica that ends or hangs loses at most what it had in hand', () => {
  it('delete --force of each webhook pod', async () => {
    await hold('delete --force of each webhook pod', { failed: 2 * IN_FLIGHT, dark: 5 }, async () => {
      for (const pod of await podsOf('webhook')) {
        await node.inSystem('delete', pod, '--force', '--grace-period=0');
        await rolledOut(node);
      }
    });
  });

  it('kill -9 of each webhook process', async () => {
    await hold('kill -9 of each webhook process', { failed: 2 * IN_FLIGHT, dark: 5 }, async () => {
      for (const pid of await processesOf(node, 'webhook')) {
        await node.signal(pid, 'SIGKILL');
        await restarted('webhook', pid);
      }
    });
  });

  it('kill -9 of each controllers process', async () => {
    await hold('kill -9 of each controllers process', { failed: 0, dark: 3 }, async () => {
      for (const pid of await processesOf(node, 'controllers')) {
        await node.signal(pid, 'SIGKILL');
        await restarted('controllers', pid);
      }
    });
  });

  it('a stopped webhook process is gone within 15 s, and fails only what waits for it', async () => {
    const took: number[] = [];
    await hold('SIGSTOP of each webhook process', { failed: 400, dark: 20 }, async () => {
      for (const pid of await processesOf(node, 'webhook')) {
        const from = performance.now();
        await node.signal(pid, 'SIGSTOP');
        await eventually('the stopped process is gone', async () => !(await isAlive(pid)), {
          timeoutMs: 60_000,
        });
        took.push((performance.now() - from) / 1_000);
        await restarted('webhook', pid);
      }
    });
    console.log(`stopped processes were gone after ${took.map((one) => one.toFixed(1)).join(' and ')} s`);
    expect(Math.max(...took)).toBeLessThan(15);
  });
});

it('without webhooks, nothing passes unchecked, and writes work again immediately afterwards', async () => {
  const bound = { failed: Number.POSITIVE_INFINITY, dark: 40 };
  await hold('webhooks scaled to 0 for 5 s and back', bound, async () => {
    const scale = ['scale', 'deployment/gatehouse-webhook'];
    await node.inSystem(...scale, '--replicas=0');
    await eventually('no webhook runs', async () => (await podsOf('webhook'))[0] === '');
    await sleep(5_000);
    await node.inSystem(...scale, '--replicas=2');
    await rolledOut(node);
  });
});

describe('parts of the cluster are killed and started again', () => {
  const bounds: Readonly<Record<Exclude<PartName, 'network-policies'>, Bound>> = {
    etcd: { failed: 0, dark: 10 },
    'kube-apiserver': { failed: 400, dark: 20 }, // requests while it is down
    'kube-controller-manager': { failed: 0, dark: 3 },
    'kube-scheduler': { failed: 0, dark: 3 },
    containerd: { failed: 0, dark: 3 },
    kubelet: { failed: 0, dark: 3 },
    'kube-proxy': { failed: 0, dark: 3 },
  };
  it.each(Object.entries(bounds))('%s', async (name, bound) => {
    const part = name as PartName; // the keys of bounds
    const before = await restartsOf();
    await hold(`kill -9 of ${part}`, bound, async () => {
      await node.kill(part);
      node.launch(part);
      await sleep(5_000);
    });
    await refuses(node);
    expect(await restartsOf()).toEqual(before);
  });
});

it('no pod has come near its memory limit', async () => {
  const pids = [...(await processesOf(node, 'webhook')), ...(await processesOf(node, 'controllers'))];
  const memory = await Promise.all(pids.map(memoryOf));
  for (const { limit, peak, killed } of memory) {
    expect(killed).toBe(0);
    expect(peak).toBeLessThan(limit / 2);
  }
});

it('after a reboot of the node, the policy is enforced again without help', async () => {
  await hold('reboot of the node', { failed: Number.POSITIVE_INFINITY, dark: 75 }, async () => {
    await node.reboot();
    await refuses(node, 60_000);
    await rolledOut(node);
  });
});

/** From the cgroup of a process: its bytes, including cached files, and how often the kernel killed a process for lack of memory. */
async function memoryOf(pid: number) {
  const groups = await node.inNode('cat', `/proc/${pid}/cgroup`);
  const path = /^\d+:memory:(?<path>.*)$/m.exec(groups)?.groups?.path ?? '';
  const read = (file: string) => readFileSync(join('/sys/fs/cgroup/memory', path, file), 'utf8');
  return {
    limit: Number(read('memory.limit_in_bytes')),
    peak: Number(read('memory.max_usage_in_bytes')),
    killed: Number(/^oom_kill (?<times>\d+)$/m.exec(read('memory.oom_control'))?.groups?.times),
  };
}

const isAlive = async (pid: number): Promise<boolean> =>
  await node.inNode('test', '-e', `/proc/${pid}`).then(
    () => true,
    () => false,
  );

async function restarted(command: 'webhook' | 'controllers', pid: number): Promise<void> {
  await eventually('the process was restarted', async () => {
    const running = await processesOf(node, command);
    return running.length === 2 && !running.includes(pid);
  });
  await rolledOut(node);
}

/** Of each pod of Gatehouse. */
const restartsOf = async (): Promise<string> => {
  const path = '{range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\\n"}{end}';
  return await node.inSystem('get', 'pods', '-o', `jsonpath=${path}`);
};
