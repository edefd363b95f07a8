// suite: shared-plane, sandbox: long
/**
 * One fault at a time between Gatehouse and the API server, in each direction. src/kube/reflector.test.ts has the faults of lists and watches,
 * certs-two-leaders.test.ts the faults of a rotation, and restore-failures.test.ts restores.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { localService, SERVERS } from '../support/cluster.ts';
import type { Fault } from '../support/api-proxy-exchange.ts';
import { serverWith, startFaultScene, verdictOn, type FaultScene } from '../support/faults/scene.ts';
import { countByTarget, writesOf } from '../support/gatehouse-audit.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

/** How long a recovery may take, in milliseconds: twice the longest backoff of a reflector. */
const WITHIN_MS = 60_000;

let scene: FaultScene;

beforeAll(async () => {
  scene = await startFaultScene();
});

afterEach(() => {
  scene.repair();
});

afterAll(async () => {
  await scene.stop();
});

const create = (name: string, parts: { serial?: string; at?: string } = {}) =>
  verdictOn(scene.cluster, serverWith(parts.at ?? 'fra1', { name, ...parts }));

const kindOf = async (...asked: Parameters<typeof create>) => (await create(...asked)).kind;

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
  await Promise.all(
    cases.flatMap(({ how, serial }) =>
      ['a', 'b'].map(async (side) => {
        const wanted = serverWith('fra1', { name: `${serial.toLowerCase()}-${side}`, serial });
        const verdict = await verdictOn(cluster, wanted, { dryRun: false });
        // A denial names the other Server, which then holds the value or may still get it.
        if (verdict.kind === 'refused') expect(verdict.message, how).toContain('is held by');
      }),
    ),
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

/** The faults, and whether calls can succeed during them. */
const WEBHOOK_FAULTS: readonly (readonly [
  string,
  (tcp: FaultScene['webhookTcp']) => void,
  'passes' | 'fails' | 'either',
])[] = [
  ['frozen', (tcp) => tcp.freeze(), 'fails'],
  ['cut', (tcp) => tcp.cut(), 'fails'],
  ['slow', (tcp) => tcp.delay({ min: 20, max: 200 }), 'passes'],
  ['half-closed towards Gatehouse', (tcp) => tcp.halfClose('target'), 'either'],
];

test.each(WEBHOOK_FAULTS)(
  'while webhook calls are %s, no verdict is wrong, and calls succeed immediately after the fault',
  async (_how, begin, expected) => {
    expect(await kindOf('p')).toBe('allowed');
    begin(scene.webhookTcp);
    const [good, bad, taken] = await Promise.all([
      create('p'),
      create('p', { at: 'nowhere' }),
      create('p', { serial: 'TAKEN' }),
    ]);
    const verdicts = [good.kind, bad.kind, taken.kind].join(', ');
    if (expected === 'fails') expect(verdicts).toBe('failed, failed, failed');
    if (expected === 'passes') expect(verdicts).toBe('allowed, refused, refused');
    expect(good.kind).not.toBe('refused');
    expect(bad.kind).not.toBe('allowed');
    expect(taken.kind).not.toBe('allowed');
    scene.repair();
    await eventually('a valid create succeeds again', async () => (await kindOf('p')) === 'allowed', {
      timeoutMs: 5_000,
    });
    expect(await kindOf('p', { at: 'nowhere' })).toBe('refused');
    expect(await kindOf('p', { serial: 'TAKEN' })).toBe('refused');
  },
);
