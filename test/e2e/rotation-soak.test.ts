// suite: shared-plane, sandbox: long, nightly
/** W1: the CA is rotated three times in a minute, and no admission through the API server fails. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { secrets, services } from '../../src/kube/well-known.ts';
import type { Balancer } from '../support/balancer.ts';
import { localService, type Cluster } from '../support/cluster.ts';
import { enforceExamples, startReplicas } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import { endTrust } from '../support/end-trust.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { createAdmitter, startLoad, type Load } from '../support/load.ts';
import { AUTHORITY } from '../support/own-objects.ts';
import { eventually } from '../support/processes.ts';
import { presentedSerial } from '../support/tls.ts';

const ROTATIONS = 3;
const RATE = 200;
/** More concurrent requests would only queue, and an admission that waits for 5 s has failed. */
const LANES = 16;
/** The minimum duration. */
const SOAK_MS = isNightly ? 60_000 : 15_000;
const CUT_EVERY_MS = 1_000;
/** Polling uses the CPU of the same machine. */
const LOOK_EVERY_MS = 100;
/** Their certs must be reissued before an old CA can be removed. */
const SERVICES = 20;

const SETTINGS = { 'ca-propagation-wait': '1s' } as const;

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];
let admitter: ReturnType<typeof createAdmitter>;

beforeAll(async () => {
  ({ balancer, cluster, replicas } = await startReplicas(['one', 'two'], { settings: SETTINGS }));
  admitter = createAdmitter(cluster, LANES);
  await enforceExamples(cluster);
  for (let index = 0; index < SERVICES; index++)
    await cluster.admin.create(
      services,
      localService('shop', `web-${index}`, 443, { 'gatehouse.dev/serving-cert-secret-name': `web-${index}` }),
    );
});

afterAll(async () => {
  await admitter.stop();
  await cluster.stop();
  await balancer.stop();
});

interface Generation {
  readonly id: string;
  readonly state: 'pending' | 'active' | 'retiring';
  readonly publishedAt?: string;
}

async function generations(): Promise<readonly Generation[]> {
  const secret = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
  return secret === undefined ? [] : (JSON.parse(text(secret, 'generations.json')) as readonly Generation[]);
}

function phaseOf(list: readonly Generation[]): string {
  const pending = list.find(({ state }) => state === 'pending');
  if (pending !== undefined) return pending.publishedAt === undefined ? 'publishing' : 'propagating';
  return list.length > 1 ? 'retiring' : 'steady';
}

const activeOf = (list: readonly Generation[]) => list.find(({ state }) => state === 'active')?.id;

const presentedSerials = () => Promise.all(replicas.map(({ port }) => presentedSerial(port)));

/**
 * Cuts half of the connections between the API server and Gatehouse periodically, and at each new phase of a rotation.
 * The other half survives from one phase to the next. Counts the new handshakes by phase.
 */
function startCutting(load: Load) {
  const handshakes = new Map<string, number>();
  const stopping = new AbortController();
  let cuts = 0;
  const loop = async () => {
    let phase = '';
    let cutAt = 0;
    let seen = balancer.accepted();
    while (!stopping.signal.aborted) {
      const now = phaseOf(await generations());
      if (now !== phase || performance.now() - cutAt >= CUT_EVERY_MS) {
        cuts += await load.between(() => balancer.cut(2));
        cutAt = performance.now();
      }
      handshakes.set(now, (handshakes.get(now) ?? 0) + balancer.accepted() - seen);
      [phase, seen] = [now, balancer.accepted()];
      await sleep(LOOK_EVERY_MS);
    }
  };
  const running = loop();
  return {
    stop: async () => {
      stopping.abort();
      await running;
      return { handshakes, cuts };
    },
  };
}

/**
 * Requests a new CA. Waits until it signs, both replicas present one of its certs, and the API server has connected to
 * one.
 */
async function rotate(reason: string, load: Load): Promise<string> {
  const before = { active: activeOf(await generations()), serials: await presentedSerials() };
  const annotations = { 'gatehouse.dev/rotate': reason };
  await cluster.admin.patchMerge(secrets, AUTHORITY, { metadata: { annotations } });
  const id = await eventually(
    `${reason}: the new CA signs`,
    async () => {
      const active = activeOf(await generations());
      return active === before.active ? undefined : active;
    },
    { timeoutMs: 90_000, everyMs: LOOK_EVERY_MS },
  );
  await eventually(
    `${reason}: both replicas present a new cert`,
    async () => (await presentedSerials()).every((serial, index) => serial !== before.serials[index]),
    { timeoutMs: 60_000, everyMs: LOOK_EVERY_MS },
  );
  const handshakes = balancer.accepted();
  await load.between(() => balancer.cut(1));
  await eventually(`${reason}: new connections`, () => balancer.accepted() > handshakes);
  return id;
}

/** Admissions that Gatehouse could not decide. The API server retries them, so clients may not see a failure. */
async function undecided(): Promise<number> {
  const pattern =
    /^(?:gatehouse_admission_duration_seconds_count\{.*outcome="(?:retry|error)".*\}|gatehouse_rejected_requests_total\{.*\}) (\d+)$/gm;
  const all = await Promise.all(replicas.map((replica) => replica.metrics()));
  return all
    .flatMap((metrics) => [...metrics.matchAll(pattern)])
    .reduce((sum, [, count]) => sum + Number(count), 0);
}

test(
  'W1: no admission fails during three rotations of the CA under 200 admissions a second',
  async () => {
    const ids = new Set((await generations()).map(({ id }) => id));
    const undecidedBefore = await undecided();
    const load = startLoad({ perSecond: RATE, lanes: LANES, request: admitter.admit });
    const cutting = startCutting(load);
    const started = performance.now();
    const seconds = () => ((performance.now() - started) / 1_000).toFixed(1);
    const tookS: string[] = [];
    for (let rotation = 0; rotation < ROTATIONS; rotation++) {
      await sleep(Math.max(0, started + (rotation * SOAK_MS) / ROTATIONS - performance.now()));
      ids.add(await rotate(`soak-${rotation}`, load));
      tookS.push(seconds());
    }
    await endTrust(cluster);
    await eventually('the old CAs are gone', async () => (await generations()).length === 1, {
      timeoutMs: 90_000,
      everyMs: LOOK_EVERY_MS,
    });
    tookS.push(seconds());
    await sleep(Math.max(0, started + SOAK_MS - performance.now()));

    const { handshakes, cuts } = await cutting.stop();
    const { sent, failures, seconds: lasted } = await load.stop();
    console.log(
      `${sent} requests in ${lasted.toFixed(1)} s (${Math.round(sent / lasted)} of ${RATE} a second), ${failures.length} failed; ` +
        `the ${ROTATIONS} new CAs signed after ${tookS.slice(0, -1).join(', ')} s, the old ones were gone after ${tookS.at(-1)} s; ` +
        `${cuts} connections cut, handshakes by phase: ${[...handshakes].map(([phase, count]) => `${phase} ${count}`).join(', ')}`,
    );
    expect(failures).toEqual([]);
    expect(await undecided()).toBe(undecidedBefore);
    expect(ids.size).toBe(ROTATIONS + 1);
  },
  SOAK_MS + 400_000,
);
