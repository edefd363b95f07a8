// suite: shared-plane, sandbox: long, slow, nightly
/**
 * Gatehouse behind the fault harness: one fault at a time between Gatehouse and the API server. faults-webhook.test.ts
 * covers the other direction. Other tests of faults: src/kube/reflector.test.ts has the reflector against a scripted
 * server, certs-crash.test.ts has each write of a rotation, and restore-failures.test.ts has restores.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, DATACENTERS, localService, SERVERS } from '../support/cluster.ts';
import type { Fault } from '../support/faults/request-faults.ts';
import type { WatchFault } from '../support/faults/watch-faults.ts';
import {
  labelPolicy,
  serverWith,
  startFaultScene,
  verdictOn,
  type FaultScene,
} from '../support/faults/scene.ts';
import { seeInForce, untilRefused } from '../support/gatehouse-cluster.ts';
import { countByTarget, writesOf } from '../support/gatehouse-audit.ts';
import { isNightly } from '../support/nightly.ts';
import { datacenter, text, type SecretObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

/** How long a recovery may take, in milliseconds: twice the longest backoff of a reflector. */
const WITHIN_MS = 60_000;

let scene: FaultScene;

beforeAll(async () => {
  scene = await startFaultScene();
  const { cluster } = scene;
  await cluster.apply(labelPolicy('changing', 'never'));
  await seeInForce(cluster, 'changing');
});

afterEach(() => {
  scene.repair();
});

afterAll(async () => {
  await scene.stop();
});

const create = (name: string, parts: { serial?: string; label?: string; at?: string } = {}) =>
  verdictOn(scene.cluster, serverWith(parts.at ?? 'fra1', { name, ...parts }));

const kindOf = async (...asked: Parameters<typeof create>) => (await create(...asked)).kind;

/** Checks invariants repeatedly until `during` has settled. Returns the number of verdicts. */
async function neverWrong(during: Promise<unknown>): Promise<number> {
  let over = false;
  const ended = during.finally(() => (over = true));
  ended.catch(() => undefined); // awaited below, after the last verdict
  let verdicts = 0;
  while (!over) {
    const [good, bad] = await Promise.all([create('probe-good'), create('probe-bad', { at: 'nowhere' })]);
    expect(good.kind === 'refused' ? good.message : '', 'what may be stored').toBe('');
    expect(bad.kind, 'what may not be stored').not.toBe('allowed');
    verdicts += 2;
    await sleep(50);
  }
  await ended;
  return verdicts;
}

const servingCert = (name: string) =>
  localService('shop', name, 443, { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` });

const isWhole = (secret: SecretObject) =>
  text(secret, 'tls.crt').includes('BEGIN CERTIFICATE') && text(secret, 'tls.key') !== '';

const seeCertOf = (name: string) =>
  scene.cluster.see<SecretObject>(
    `the certificate of ${name}`,
    secrets,
    { namespace: 'shop', name: `${name}-tls` },
    isWhole,
    WITHIN_MS,
  );

/** Makes one change of every kind, named by `n`. Requires the datacenter `old-n` and the policy `old-n`. */
async function change(n: number): Promise<void> {
  const { cluster } = scene;
  await cluster.admin.delete(DATACENTERS, { name: `old-${n}` });
  await cluster.admin.create(DATACENTERS, datacenter(`new-${n}`));
  await cluster.admin.create(services, servingCert(`db-${n}`));
  await cluster.apply(labelPolicy(`new-${n}`, `new-label-${n}`));
  await cluster.apply(labelPolicy('changing', `changed-${n}`));
  await cluster.admin.delete(ADMISSION_POLICIES, { name: `old-${n}` });
}

let stirred = 0;

/** Makes several events at once: fewer are not reordered. */
async function stir(): Promise<void> {
  await Promise.all(
    Array.from({ length: 5 }, () =>
      scene.cluster.admin.create(DATACENTERS, datacenter(`stirred-${stirred++}`)),
    ),
  );
}

const within = { timeoutMs: WITHIN_MS };

async function converges(n: number): Promise<void> {
  const { cluster } = scene;
  await seeInForce(cluster, `new-${n}`);
  await eventually(
    'the new policy',
    async () => (await kindOf('p', { label: `new-label-${n}` })) === 'refused',
    within,
  );
  await eventually(
    'the changed policy',
    async () => (await kindOf('p', { label: `changed-${n}` })) === 'refused',
    within,
  );
  await eventually(
    'the deleted policy',
    async () => (await kindOf('p', { label: `old-label-${n}` })) === 'allowed',
    within,
  );
  await seeCertOf(`db-${n}`);
  await eventually(
    'the new datacenter',
    async () => (await kindOf('p', { at: `new-${n}` })) === 'allowed',
    within,
  );
  await eventually(
    'the deleted datacenter',
    async () => (await kindOf('p', { at: `old-${n}` })) === 'refused',
    within,
  );
}

/**
 * Faults that end watches alternate with faults that do not: consecutive failures would lengthen the reflector's
 * backoff.
 */
const ALL: readonly (readonly [string, WatchFault])[] = [
  ['followed by older versions of their objects', { kind: 'go-back' }],
  ['reordered', { kind: 'reorder', events: 3 }],
  ['cut in the middle of a line', { kind: 'cut-in-line' }],
  ['repeated', { kind: 'duplicate' }],
  ['answered 410', { kind: 'gone' }],
  ['sent without bookmarks', { kind: 'drop-bookmarks' }],
  ['ended by an ERROR event 410', { kind: 'error-event' }],
  ['frozen', { kind: 'freeze' }],
  ['broken', { kind: 'break' }],
];
const IN_CI: readonly WatchFault['kind'][] = ['go-back', 'cut-in-line', 'gone', 'freeze'];
const WATCH_FAULTS = ALL.filter(([, { kind }]) => isNightly || IN_CI.includes(kind));
if (!isNightly) console.log(`only the faults ${IN_CI.join(', ')}; npm run test:nightly tries all`);

test.each(WATCH_FAULTS.map(([how, fault], n) => [how, fault, n] as const))(
  'while watches are %s, no verdict is wrong, and replicas know every change afterwards',
  async (_how, fault, n) => {
    const { cluster, api } = scene;
    await cluster.admin.create(DATACENTERS, datacenter(`old-${n}`));
    await cluster.apply(labelPolicy(`old-${n}`, `old-label-${n}`));
    await seeInForce(cluster, `old-${n}`);
    await untilRefused('the old label', 'is forbidden', () =>
      cluster.admin.create(SERVERS, serverWith('fra1', { name: 'p', label: `old-label-${n}` }), {
        dryRun: true,
      }),
    );
    const harm = api.watches.harm(fault);
    const verdicts = await neverWrong(
      (async () => {
        await change(n);
        // Gatehouse never denies a reference to an existing object: it reads live before a denial.
        expect(await kindOf('p', { at: `new-${n}` })).not.toBe('refused');
        await sleep(700);
        // After the faults before, a replica may wait for some seconds before it watches again, and miss these changes.
        if (fault.kind !== 'drop-bookmarks')
          await eventually(
            'a watch meets the fault',
            async () => {
              await stir();
              return harm.met() > 0;
            },
            { everyMs: 500 },
          );
      })(),
    );
    const met = harm.met();
    harm.end();
    const began = performance.now();
    await neverWrong(converges(n));
    console.log(
      `${fault.kind}: applied ${met} times, ${verdicts} verdicts meanwhile, all known after ${Math.round(performance.now() - began)} ms`,
    );
    if (fault.kind !== 'drop-bookmarks') expect(met).toBeGreaterThan(0); // bookmarks come once a minute
    // Deleted objects stay deleted.
    await sleep(500);
    expect(await kindOf('p', { at: `old-${n}` })).toBe('refused');
  },
);

const WRITE_FAULTS: readonly (readonly [string, Fault])[] = [
  ['409', { kind: 'answer', code: 409, applied: false }],
  ['429', { kind: 'answer', code: 429, applied: false }],
  ['429 with Retry-After', { kind: 'answer', code: 429, applied: false, retryAfterSeconds: 1 }],
  ['500', { kind: 'answer', code: 500, applied: false }],
  ['503', { kind: 'answer', code: 503, applied: false }],
  ['503 with Retry-After', { kind: 'answer', code: 503, applied: false, retryAfterSeconds: 1 }],
  ['carried out, and 504', { kind: 'answer', code: 504, applied: true }],
  ['carried out, and 500', { kind: 'answer', code: 500, applied: true }],
  [
    'carried out, and 429 with Retry-After',
    { kind: 'answer', code: 429, applied: true, retryAfterSeconds: 1 },
  ],
  ['reset', { kind: 'reset', applied: false }],
  ['carried out, and reset', { kind: 'reset', applied: true }],
  ['carried out, and never answered', { kind: 'hold', applied: true }],
];

test('each fault hits the write of a certificate, and Gatehouse still issues it exactly once', async () => {
  const { cluster, api } = scene;
  const cases = WRITE_FAULTS.map(([how, fault], n) => ({ how, fault, name: `once-${n}` }));
  const met = cases.map(({ name, fault }) =>
    api.intercept(({ target }) => target === `secrets shop/${name}-tls`, fault),
  );
  await Promise.all(cases.map(({ name }) => cluster.admin.create(services, servingCert(name))));
  const first = await Promise.all(cases.map(({ name }) => seeCertOf(name)));
  expect(cases.filter((_one, n) => met[n]?.isMet() !== true).map(({ how }) => how)).toEqual([]);
  await sleep(2_000); // time for a duplicate write, in case Gatehouse repeats a write whose response was lost
  const last = await Promise.all(cases.map(({ name }) => seeCertOf(name)));
  for (const [n, { how }] of cases.entries()) expect(last[n]?.data, how).toEqual(first[n]?.data);
  const writes = countByTarget(writesOf(cluster.plane));
  expect(cases.map(({ how, name }) => [how, writes[`secrets shop/${name}-tls`]])).toEqual(
    cases.map(({ how }) => [how, 1]),
  );
});

test('each fault hits the write of a claim, and no value is held twice', async () => {
  const { cluster, api } = scene;
  const cases = WRITE_FAULTS.map(([how, fault], n) => ({ how, fault, serial: `SN-${n}` }));
  const met = cases.map(({ serial, fault }) =>
    api.intercept(
      ({ target, body }) =>
        target.startsWith('uniqueclaims ') && JSON.stringify(body).includes(`\\"${serial}\\"`),
      fault,
    ),
  );
  const outcomes = await Promise.all(
    cases.flatMap(({ how, serial }) =>
      ['a', 'b'].map(async (side) => {
        const wanted = serverWith('fra1', { name: `${serial.toLowerCase()}-${side}`, serial });
        const verdict = await verdictOn(cluster, wanted, { dryRun: false });
        // A denial names the other Server, which then holds the value or may still get it.
        if (verdict.kind === 'refused') expect(verdict.message, how).toContain('is held by');
        return `${how}: ${verdict.kind}`;
      }),
    ),
  );
  console.log(
    Object.entries(Object.groupBy(outcomes, (one) => one))
      .map(([one, all]) => `${one} × ${all?.length ?? 0}`)
      .join('\n'),
  );
  expect(cases.filter((_one, n) => met[n]?.isMet() !== true).map(({ how }) => how)).toEqual([]);
  await Promise.all(
    cases.map(async ({ how, serial }) => {
      await eventually(
        `a Server has ${serial}, after ${how}`,
        async () => {
          await verdictOn(cluster, serverWith('fra1', { name: `${serial.toLowerCase()}-a`, serial }), {
            dryRun: false,
          });
          return (await holdersOf(serial)).length > 0;
        },
        { timeoutMs: WITHIN_MS, everyMs: 500 },
      );
      expect(await holdersOf(serial), how).toHaveLength(1);
    }),
  );
});

async function holdersOf(serial: string): Promise<readonly string[]> {
  const { items } = await scene.cluster.admin.listAll<KubeObject & { spec: { serial?: string } }>(SERVERS);
  return items.filter(({ spec }) => spec.serial === serial).map(({ metadata }) => metadata?.name ?? '');
}

test('a replica recovers from a list that is older than the previous one', async () => {
  const { cluster, api, replica } = scene;
  await cluster.admin.create(DATACENTERS, datacenter('listed'));
  const rewritten: string[] = [];
  api.disturb(({ method, path }) =>
    method === 'GET' && path.includes('/datacenters?')
      ? {
          kind: 'rewrite',
          change: (body) => {
            rewritten.push(path);
            return body.replace(/("resourceVersion":)"\d+"/, '$1"1"');
          },
        }
      : undefined,
  );
  const broken = api.watches.harm({ kind: 'break' }, (path) => path.includes('/datacenters?'));
  broken.end();
  const verdicts = await neverWrong(
    eventually('the replica received an older list', () => rewritten.length >= 2, within),
  );
  api.disturb(undefined);
  await cluster.admin.delete(DATACENTERS, { name: 'listed' });
  await neverWrong(
    eventually(
      'the deletion is known',
      async () => (await kindOf('p', { at: 'listed' })) === 'refused',
      within,
    ),
  );
  console.log(`${rewritten.length} answers were replaced by older ones, ${verdicts} verdicts meanwhile`);
  expect(replica.program.isRunning()).toBe(true);
});
