// suite: shared-plane, sandbox: long, nightly
/**
 * Faults of all kinds at once, by seed and under load: no verdict is ever wrong, and after the last fault the system
 * recovers.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { DATACENTERS, localService, SERVERS } from '../support/cluster.ts';
import { createFaultPlan, faultSeed, runFaultPlan, underSeed } from '../support/faults.ts';
import { allFaults } from '../support/faults/all-faults.ts';
import { labelPolicy, serverWith, startFaultScene, type FaultScene } from '../support/faults/scene.ts';
import { verdictOn, type Verdict } from '../support/faults/verdicts.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { countByTarget, writesOf } from '../support/gatehouse-audit.ts';
import { startLoad } from '../support/load.ts';
import { isNightly } from '../support/nightly.ts';
import { datacenter, text, type SecretObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const seed = faultSeed();
/** Duration of the faults, in milliseconds. */
const FAULTS_MS = Number(process.env.GATEHOUSE_FAULT_SECONDS ?? (isNightly ? 120 : 15)) * 1_000;
/** How long the recovery after the last fault may take, in milliseconds: twice the longest backoff of a reflector. */
const WITHIN_MS = 60_000;
/** Requests a second, and in flight at most. */
const LOAD = { perSecond: 20, lanes: 40 };
/** Under the load of the faults, a slow machine has no capacity left to recover. */
const LOAD_AFTERWARDS = { perSecond: 5, lanes: 4 };

let scene: FaultScene;

beforeAll(async () => {
  scene = await startFaultScene({ replicas: ['one', 'two'], seed });
});

afterAll(async () => {
  await scene.stop();
});

type Stored = KubeObject & {
  readonly spec: { readonly datacenter: string; readonly serial?: string; readonly tier?: string };
};

interface Tally {
  /** Number of create requests by kind and outcome, such as `good allowed`. */
  readonly counts: Map<string, number>;
  readonly wrong: string[];
  readonly certs: Set<string>;
}

const create = (name: string, at: string, serial: string) =>
  verdictOn(scene.cluster, serverWith(at, { name, serial }), { dryRun: false });

/** Returns false after an API or network error: webhooks fail often here, and a failure is not a verdict. */
async function tryTo(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof ApiError || (error instanceof Error && error.name === 'NetworkError')) return false;
    throw error;
  }
}

/** The nth request of the load. */
async function act(n: number, { counts, wrong, certs }: Tally): Promise<void> {
  const { admin } = scene.cluster;
  const count = (what: string, { kind }: Verdict) => {
    counts.set(`${what} ${kind}`, (counts.get(`${what} ${kind}`) ?? 0) + 1);
  };
  const good = async (name: string, at: string) => {
    const verdict = await create(name, at, `serial-of-${name}`);
    count('good', verdict);
    if (verdict.kind === 'refused') wrong.push(`${name} was refused: ${verdict.message}`);
  };
  switch (n % 10) {
    case 0:
    case 1:
      await good(`good-${n}`, 'fra1');
      return;
    case 2: // the watch has not delivered the new Datacenter yet
      if (await tryTo(() => admin.create(DATACENTERS, datacenter(`dc-${n}`))))
        await good(`new-${n}`, `dc-${n}`);
      return;
    case 3: {
      const verdict = await create(`bad-${n}`, 'nowhere', `serial-of-${n}`);
      count('bad', verdict);
      if (verdict.kind === 'allowed') wrong.push(`bad-${n} was stored`);
      return;
    }
    case 4:
      if (await tryTo(() => admin.create(services, servingCert(`svc-${n}`)))) certs.add(`svc-${n}`);
      return;
    case 5:
      await tryTo(() => scene.cluster.apply(labelPolicy('changing', `label-${n}`)));
      return;
    case 6: // its serial is free again: another Server can take it at once
      await tryTo(() => admin.delete(SERVERS, { namespace: 'shop', name: `contested-${n - 9}` }));
      return;
    default:
      count('contested', await create(`contested-${n}`, 'fra1', `C-${Math.floor(n / 10)}`));
  }
}

const servingCert = (name: string) =>
  localService('shop', name, 443, { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` });

async function storedServers(): Promise<readonly Stored[]> {
  return (await scene.cluster.admin.listAll<Stored>(SERVERS)).items;
}

/** Checks the invariants that hold under every fault. */
async function expectNothingWrong(tally: Tally): Promise<void> {
  expect(tally.wrong).toEqual([]);
  const servers = await storedServers();
  const bySerial = Object.groupBy(servers, ({ spec }) => spec.serial ?? '');
  const shared = Object.entries(bySerial).filter(([serial, all]) => serial !== '' && (all?.length ?? 0) > 1);
  expect(shared.map(([serial, all]) => [serial, all?.map(({ metadata }) => metadata?.name)])).toEqual([]);
  expect(servers.filter(({ spec }) => spec.datacenter === 'nowhere')).toEqual([]);
  expect(servers.filter(({ spec }) => spec.tier !== 'standard')).toEqual([]);
  const writes = countByTarget(writesOf(scene.cluster.plane));
  const rewritten = [...tally.certs].filter((name) => (writes[`secrets shop/${name}-tls`] ?? 0) > 1);
  expect(rewritten, 'certificates that were written more than once').toEqual([]);
}

async function converges(tally: Tally): Promise<void> {
  const { cluster, replicas } = scene;
  const within = { timeoutMs: WITHIN_MS, everyMs: 100 };
  const dryRun = (parts: { at?: string; label?: string }) =>
    verdictOn(cluster, serverWith(parts.at ?? 'fra1', { name: 'probe', ...parts }));
  await eventually(
    'policies are accepted',
    () => tryTo(() => cluster.apply(labelPolicy('after', 'after'))),
    within,
  );
  await seeInForce(cluster, 'after');
  // Repeat the request, so that each replica answers at some time.
  for (let times = 0; times < 4; times += 1) {
    await eventually(
      'it is in force',
      async () => (await dryRun({ label: 'after' })).kind === 'refused',
      within,
    );
    await eventually('valid requests pass', async () => (await dryRun({})).kind === 'allowed', within);
  }
  // The load adds more meanwhile: on a slow machine, as fast as this loop sees them.
  for (const name of [...tally.certs]) {
    const ref = { namespace: 'shop', name: `${name}-tls` };
    await cluster.see<SecretObject>(
      ref.name,
      secrets,
      ref,
      (secret) => text(secret, 'tls.key') !== '',
      WITHIN_MS,
    );
  }
  for (const replica of replicas)
    await eventually(`${replica.name} is ready`, async () => (await replica.readyz()).ok, within);
}

test(`no verdict is wrong with GATEHOUSE_FAULT_SEED=${seed}`, async () => {
  await underSeed(seed, async () => {
    const faults = allFaults(scene, seed);
    const plan = createFaultPlan(seed, { names: Object.keys(faults), forMs: FAULTS_MS });
    const tally: Tally = { counts: new Map(), wrong: [], certs: new Set() };
    const load = startLoad({ ...LOAD, request: (n) => act(n, tally) });
    await runFaultPlan(plan, faults);
    scene.repair();
    const repaired = performance.now();
    const during = await load.stop();
    const gentle = startLoad({ ...LOAD_AFTERWARDS, request: (n) => act(during.sent + n, tally) });
    await converges(tally);
    const took = performance.now() - repaired;
    const afterwards = await gentle.stop();
    await converges(tally); // once more, after the requests in flight
    console.log(
      [
        `seed ${seed}: ${plan.length} faults in ${FAULTS_MS / 1_000} s, ${during.sent + afterwards.sent} requests; converged after ${(took / 1_000).toFixed(1)} s`,
        ...[...tally.counts].toSorted().map(([what, count]) => `${what}: ${count}`),
        `certificates: ${tally.certs.size}`,
        ...plan.map(
          ({ name, atMs, lastsMs }) => `${(atMs / 1_000).toFixed(1)} s: ${name}, for ${lastsMs} ms`,
        ),
      ].join('\n'),
    );
    expect([...during.failures, ...afterwards.failures]).toEqual([]);
    await expectNothingWrong(tally);
    expect(took).toBeLessThan(WITHIN_MS);
  });
});
