// suite: shared-plane, sandbox: long
/** Two replicas that both believe they lead. Their clocks are ten minutes apart, and both are wrong. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { startApiProxy } from '../support/api-proxy.ts';
import type { Cluster } from '../support/cluster.ts';
import { LONG_AGO_MS } from '../support/end-trust.ts';
import { startReplica } from '../support/gatehouse.ts';
import { ownLease } from '../support/own-lease.ts';
import { eventually, freePort } from '../support/processes.ts';
import {
  activeId,
  askForRotation,
  nameOfWrite,
  startRotationScene,
  untilInstalled,
  untilRotated,
  QUICK,
} from '../support/rotation-scene.ts';
import { issuerId, leafOf, recordTrust, rootIds, type TrustHistory } from '../support/trust-history.ts';
import { createTrustJudge } from '../support/trust-judge.ts';
import { withSkewedClock } from '../support/skewed-clock.ts';

const MINUTE = 60_000;
/** A leader may be wrong about the lease and the authority for a while: the grace period outlasts that. */
const SETTINGS = { ...QUICK, 'ca-propagation-wait': '500ms' } as const;
/** A Date header has a resolution of one second, and test machines can be slow. */
const TOLERANCE_MS = 15_000;

/** The notBefore of a leaf lies this long before its issuance. */
const BACKDATE_MS = 60 * MINUTE;

type Leader = Awaited<ReturnType<typeof lead>>;

let cluster: Cluster;
let history: TrustHistory;
let leaders: readonly Leader[] = [];
const startedAt = Date.now();
const steps = new Map<string, number>();
const judge = createTrustJudge({ askOpenssl: () => true });

beforeAll(async () => {
  const port = await freePort();
  cluster = await startRotationScene(port);
  history = await recordTrust(cluster);
  leaders = await Promise.all([lead('behind', -5 * MINUTE, port), lead('ahead', 5 * MINUTE, port)]);
  await Promise.all(leaders.map(({ replica }) => replica.whenReady(30_000)));
  await untilInstalled(cluster);
});

afterAll(async () => {
  await Promise.all(leaders.map(({ replica }) => replica.program.stop(15_000)));
  console.log('writes to the authority:', Object.fromEntries(steps));
  await history.stop();
  await Promise.all(leaders.map(({ proxy }) => proxy.stop()));
  await cluster.stop();
});

/** The proxy delays the replica's writes, so that the state behind a decision may be stale when the write arrives. */
async function lead(name: string, skewMs: number, servicePort: number) {
  const proxy = await startApiProxy(cluster.plane, name, ownLease());
  proxy.delayWrites(() => Math.random() * 60);
  proxy.onWrite(({ target, sender }) => {
    if (target.endsWith('/gatehouse-authority')) steps.set(sender, (steps.get(sender) ?? 0) + 1);
  });
  const settings = { ...SETTINGS, kubeconfig: proxy.kubeconfig('gatehouse') };
  const replica = await startReplica(cluster.plane, {
    name,
    servicePort,
    settings,
    ...withSkewedClock(skewMs),
  });
  return { replica, proxy, skewMs };
}

async function rotate(reason: string): Promise<void> {
  const old = activeId(history.events());
  await askForRotation(cluster, reason);
  await untilRotated(cluster, history, old, reason, 45_000);
}

const authorities = () => history.events().filter((event) => event.kind === 'authority');

const idsEver = () => [
  ...new Set(authorities().flatMap(({ authority }) => authority.generations.map(({ id }) => id))),
];

test('both replicas lead, and their clocks are wrong', async () => {
  for (const { replica, skewMs } of leaders) {
    const metrics = await replica.metrics();
    expect(metrics).toMatch(/^leader_election_master_status\{.*\} 1$/m);
    const skew = Number(/^gatehouse_clock_skew_seconds (\S+)$/m.exec(metrics)?.[1]);
    expect(Math.abs(skew * 1_000 - skewMs)).toBeLessThan(TOLERANCE_MS);
  }
});

test('D3: two leaders that start at the same time agree on one authority', () => {
  expect(idsEver()).toHaveLength(1);
});

test('C1, D4: each request causes one rotation, and clients trust every presented certificate throughout', async () => {
  for (const reason of ['first', 'second', 'third']) await rotate(reason);
  expect(idsEver()).toHaveLength(4);
  await judge.judge(history.events());
});

test('D3: the API server refuses a write that a leader planned before the other leader rotated', async () => {
  const [other, late] = leaders; // the replica whose clock is behind does all the work
  if (late === undefined || other === undefined) throw new Error('there are two leaders');
  const old = activeId(history.events());
  const before = idsEver().length;
  other.replica.program.kill('SIGSTOP');
  const write = late.proxy.intercept(
    (one) => nameOfWrite(one, old, history.events()) === 'authority prepare',
    { kind: 'hold', applied: false },
  );
  await askForRotation(cluster, 'late');
  await write.met;
  // Freeze it with a write in flight, like a virtual machine that migrates.
  late.replica.program.kill('SIGSTOP');
  other.replica.program.kill('SIGCONT');
  await untilRotated(cluster, history, old, 'late', 45_000);
  write.release();
  await eventually('the late write arrives', () => write.upstreamCode() !== undefined);
  late.replica.program.kill('SIGCONT');
  expect(write.upstreamCode()).toBe(409);
  expect(idsEver()).toHaveLength(before + 1);
  await judge.judge(history.events());
});

test('D3: a leader that was frozen while the other leader rotated changes nothing', async () => {
  const [frozen] = leaders;
  if (frozen === undefined) throw new Error('there are two leaders');
  const old = activeId(history.events());
  const before = idsEver().length;
  frozen.replica.program.kill('SIGSTOP');
  await askForRotation(cluster, 'frozen');
  await eventually('another generation signs', () => activeId(history.events()) !== old);
  frozen.replica.program.kill('SIGCONT');
  await untilRotated(cluster, history, old, 'frozen', 45_000);
  expect(idsEver()).toHaveLength(before + 1);
  await judge.judge(history.events());
});

test('no generation is ever lost, and none signs before its root is published', () => {
  const [first] = idsEver(); // the first one has no earlier bundle, so no client could trust it before
  const published = new Set([first]);
  let known: readonly string[] = [];
  for (const event of history.events()) {
    if (event.kind === 'bundle' && event.target.startsWith('configmaps '))
      for (const id of rootIds(event.bundle)) published.add(id);
    if (event.kind === 'chain') expect(published).toContain(issuerId(leafOf(event.chain)));
    if (event.kind !== 'authority') continue;
    const { generations, gone = [] } = event.authority;
    known = stillKnown(known, [...generations.map(({ id }) => id), ...gone]);
    expect(published).toContain(generations.find(({ state }) => state === 'active')?.id);
  }
  expect(known.toSorted()).toEqual(idsEver().toSorted());
});

function stillKnown(before: readonly string[], now: readonly string[]): readonly string[] {
  expect(now).toEqual(expect.arrayContaining([...before]));
  return now;
}

test("C1: recorded times come from the API server's clock, not from a leader's", () => {
  const generations = authorities().flatMap(({ authority }) => authority.generations);
  const written = generations
    .flatMap(({ createdAt, publishedAt, activatedAt }) => [createdAt, publishedAt, activatedAt])
    .filter((time) => time !== undefined && time.getTime() > startedAt - LONG_AGO_MS / 2); // endTrust writes an older one
  const leaves = history.events().filter((event) => event.kind === 'chain');
  const signed = leaves.map(({ chain }) => leafOf(chain).validFromDate.getTime() + BACKDATE_MS);
  for (const time of [...written.map(Number), ...signed]) {
    expect(time).toBeGreaterThan(startedAt - TOLERANCE_MS);
    expect(time).toBeLessThan(Date.now() + TOLERANCE_MS);
  }
});

test('L7: neither leader writes when nothing is left to do', async () => {
  let writes: string[] = [];
  let wroteAt = performance.now();
  const stops = leaders.map(({ proxy }) =>
    proxy.onWrite(({ method, target, sender }) => {
      writes.push(`${sender}: ${method} ${target}`);
      wroteAt = performance.now();
    }),
  );
  // The tokens of the webhook paths follow the last serving certificate, in steps.
  await eventually('the last Events, status and path tokens', () => performance.now() - wroteAt > 5_000);
  writes = [];
  await sleep(3_000);
  for (const stop of stops) stop();
  expect(writes).toEqual([]);
});
