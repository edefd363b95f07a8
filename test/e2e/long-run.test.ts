// suite: shared-plane, sandbox: no (it does not show another clock), slow, nightly
/**
 * T1 to T12 over years: the clocks of Gatehouse and of the API server advance together, through rotations of the CA and
 * the removal of old roots. After each step, each TLS stack judges every bundle and every chain that clients and servers
 * may have loaded, by the clock of that day.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { after, DAY } from '../../src/pki/durations.ts';
import { splitCertificates } from '../../src/pki/x509/pem.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { askForCertificate, createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { datedJudges, type Meeting } from '../support/dated-judges.ts';
import { startReplica } from '../support/gatehouse.ts';
import { ASKS, KINDS } from '../support/injection-objects.ts';
import { isNightly } from '../support/nightly.ts';
import { freePort } from '../support/processes.ts';
import { withSkewedClock } from '../support/skewed-clock.ts';
import { issuerId, leafOf, recordTrust, rootIds, type TrustHistory } from '../support/trust-history.ts';

/** The nightly run lives through two rotations, from the first root to the removal of the second; CI through one. */
const { stepDays, steps, rotations } = isNightly
  ? { stepDays: 15, steps: 78, rotations: 2 }
  : { stepDays: 30, steps: 19, rotations: 1 };
const QUIET_MS = 1_000;

let cluster: Cluster;
let proxy: ApiProxy;
let history: TrustHistory;
let port: number;
const { judges, missing, stop: stopJudges } = datedJudges();

beforeAll(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  proxy = await startApiProxy(cluster.plane, 'years');
  await createNamespace(cluster, 'shop');
  await askForCertificate(cluster, 'shop', 'db');
  await askForCertificate(cluster, 'shop', 'month', { 'gatehouse.dev/serving-cert-duration': '30d' });
  await askForCertificate(cluster, 'shop', 'rsa', { 'gatehouse.dev/serving-cert-key-algorithm': 'RSA-2048' });
  await cluster.admin.create(validatingWebhookConfigurations, KINDS.validatingwebhook.make('theirs', ASKS));
  history = await recordTrust(cluster);
});

afterAll(async () => {
  stopJudges();
  await history.stop();
  await proxy.stop();
  await cluster.stop();
});

/** One day in the life of a leader, until it writes nothing more. */
async function live(shiftMs: number): Promise<void> {
  proxy.shiftClock(shiftMs);
  const replica = await startReplica(cluster.plane, {
    name: `day-${shiftMs / DAY}`,
    port,
    settings: { kubeconfig: proxy.kubeconfig('gatehouse'), 'retry-period': '200ms' },
    ...withSkewedClock(shiftMs),
  });
  await replica.whenReady();
  for (let known = -1; known !== history.events().length;) {
    known = history.events().length;
    await sleep(QUIET_MS);
  }
  await replica.program.stop(15_000);
}

/** Clients with a root that Gatehouse keeps, and servers whose certificate has not expired. */
function meetings(at: Date): readonly Meeting[] {
  const events = history.events();
  const kept = generations().map(({ id }) => id);
  const bundles = new Set(events.flatMap((event) => (event.kind === 'bundle' ? [event.bundle] : [])));
  const usable = [...bundles].filter((bundle) => rootIds(bundle).some((id) => kept.includes(id)));
  return events.flatMap((event) =>
    event.kind === 'chain' &&
    kept.includes(issuerId(leafOf(event.chain))) &&
    leafOf(event.chain).validToDate > at
      ? usable.map((bundle) => ({ ...event, bundle }))
      : [],
  );
}

/** Of each version of the authority, oldest first. */
const authorities = () =>
  history.events().flatMap((event) => (event.kind === 'authority' ? [event.authority] : []));
const generations = () => authorities().at(-1)?.generations ?? [];
const generationsSeen = () => [
  ...new Set(authorities().flatMap(({ generations: all }) => all.map(({ id }) => id).toReversed())),
];

test(`${rotations} rotations in ${stepDays * steps} days, in ${judges.map(({ name }) => name).join(', ')}`, async () => {
  if (missing.length > 0) console.warn(`left out: ${missing.join(', ')}`);
  let judged = 0;
  for (let step = 0; step <= steps; step += 1) {
    const shiftMs = step * stepDays * DAY;
    await live(shiftMs);
    const at = after(new Date(), shiftMs);
    const pairs = meetings(at);
    const hosts = new Set(pairs.map(({ host }) => host));
    expect([...hosts].sort(), `day ${step * stepDays}`).toEqual(
      expect.arrayContaining(['db.shop.svc', 'month.shop.svc', 'rsa.shop.svc']),
    );
    for (const { name, judge } of judges) {
      const wrong = judge(pairs, at).flatMap((verdict, index) => {
        const { host, bundle, chain } = pairs[index] ?? { host: '', bundle: '', chain: '' };
        const [has, of] = [rootIds(bundle).join(), issuerId(splitCertificates(chain)[0] ?? leafOf(chain))];
        return verdict === 'ok' ? [] : [`${host}: roots ${has}, chain of ${of}: ${verdict}`];
      });
      expect(wrong, `${name} on day ${step * stepDays}`).toEqual([]);
      judged += pairs.length;
    }
  }
  console.log(`${judged} verdicts on days 0 to ${steps * stepDays}, ${generationsSeen().length} generations`);
  const seen = generationsSeen();
  expect(seen.length).toBeGreaterThan(rotations);
  for (const old of seen.slice(0, rotations)) expect(generations().map(({ id }) => id)).not.toContain(old);
}, 3_600_000);
