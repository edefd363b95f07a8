/** Replicas behind one address. Starts, stops and replaces them like a Deployment, and tracks which are ready. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { SettingName } from '../../src/config/settings.ts';
import type { Cluster } from '../support/cluster.ts';
import { apiServerOf, startTcpFaults, type TcpFaults } from '../support/faults/tcp.ts';
import type { Balancer } from '../support/balancer.ts';
import { isLeading, startReplica, type Replica, type ReplicaOptions } from '../support/gatehouse.ts';
import { kubeconfigsThrough } from '../support/control-plane-users.ts';
import { eventually } from '../support/processes.ts';

export interface Member {
  readonly name: string;
  readonly slot: Slot;
  readonly replica: Replica;
  readonly link: TcpFaults;
}

const ANSWERING = ['a', 'b', 'c'] as const;
const CONTROLLERS = ['d', 'e'] as const;
export type Slot = (typeof ANSWERING | typeof CONTROLLERS)[number];

export const answersReviews = (slot: Slot): boolean => ANSWERING.some((one) => one === slot);

type Special = Pick<ReplicaOptions, 'nodeArgs'>;

export type Replicas = Awaited<ReturnType<typeof startReplicas>>;

const ENDPOINTS_MS = 200;
const START_MS = 90_000;

export async function startReplicas(
  { plane }: Cluster,
  balancer: Balancer,
  settings: Partial<Record<SettingName, string>>,
) {
  const slots = [...ANSWERING, ...CONTROLLERS];
  const links = new Map<Slot, TcpFaults>();
  for (const slot of slots) links.set(slot, await startTcpFaults(apiServerOf(plane)));
  const members = new Map<Slot, Member>();
  let started = 0;
  let isOver = false;

  const start = async (slot: Slot, special: Special = {}): Promise<Member> => {
    const link = links.get(slot);
    if (link === undefined) throw new Error(`there is no slot ${slot}`);
    if (isOver) throw new Error('the run is over');
    const name = `${slot}-${(started += 1)}`;
    const replica = await startReplica(
      {
        folder: plane.folder,
        // The certificate of the API server contains the address, but no port.
        kubeconfig: kubeconfigsThrough(plane, slot, {
          server: `https://127.0.0.1:${link.port}`,
          ca: plane.ca,
        }),
      },
      {
        name,
        servicePort: balancer.port,
        settings,
        only: answersReviews(slot) ? 'webhook' : 'controllers',
        ...special,
      },
    );
    const member = { name, slot, replica, link };
    members.set(slot, member);
    await replica.whenReady(START_MS);
    return member;
  };
  const stopOne = async (slot: Slot): Promise<void> => {
    const member = members.get(slot);
    if (member === undefined) return;
    await member.replica.program.stop(45_000);
    const { code, signal } = await member.replica.program.exited;
    if (code !== 0 && signal !== 'SIGKILL')
      throw new Error(`${member.name} ended with ${String(code ?? signal)}`);
  };
  const endpoints = followReadiness(() => [...members.values()], balancer);

  return {
    slots,
    members: () => [...members.values()],
    start,
    /** Stops the replica with SIGTERM, and resolves when its successor is ready. */
    replace: async (slot: Slot, special?: Special) => {
      await stopOne(slot);
      return await start(slot, special);
    },
    kill: ({ replica }: Member) => replica.program.kill('SIGKILL'),
    /** The leader; undefined unless exactly one replica reports that it leads. */
    leader: async () => {
      const all = [...members.values()].filter(({ replica }) => replica.program.isRunning());
      const leading = await Promise.all(all.map(({ replica }) => isLeading(replica).catch(() => false)));
      const leaders = all.filter((_member, index) => leading[index]);
      return leaders.length === 1 ? leaders[0] : undefined;
    },
    stop: async () => {
      isOver = true;
      await endpoints.stop();
      await Promise.all([...members.values()].map(({ replica }) => replica.program.stop(20_000)));
      await Promise.all([...links.values()].map((link) => link.stop()));
    },
  };
}

const isReady = async ({ replica }: Member): Promise<boolean> =>
  replica.program.isRunning() &&
  (await replica.readyz().then(
    ({ ok }) => ok,
    () => false,
  ));

/** Sends new connections to ready replicas only, like kubelet and endpoints controller. Open connections stay. */
function followReadiness(members: () => readonly Member[], balancer: Balancer) {
  const stopping = new AbortController();
  const loop = async () => {
    while (!stopping.signal.aborted) {
      const all = members().filter(({ slot }) => answersReviews(slot));
      const ready = await Promise.all(all.map(isReady));
      balancer.setBackends(all.filter((_member, index) => ready[index]).map(({ replica }) => replica.port));
      await sleep(ENDPOINTS_MS);
    }
  };
  const running = loop();
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

export async function untilHealthy({ slots, members, leader }: Replicas, timeoutMs: number): Promise<Member> {
  return await eventually(
    'all replicas are ready and one of them leads',
    async () => {
      const all = members();
      const ready = await Promise.all(all.map(isReady));
      return all.length === slots.length && ready.every(Boolean) ? await leader() : undefined;
    },
    { timeoutMs, everyMs: 100 },
  );
}
