/**
 * Measures the speed of issuing certificates and the memory that they need: `npm run bench:certs`. With `-- --check` it
 * fails when a target is missed, and with `-- --only memory` it measures one part. API server, Gatehouse and client share one machine, so other load distorts the times.
 */
import { parseArgs } from 'node:util';

import { atLeast, type Figure, runBenchmark } from './figures.ts';
import { measureMemory, WHY_SANDBOX } from './memory.ts';
import { measureServices } from './services.ts';
import { type Authority, caBundle, createAuthority } from '../../src/pki/authority/authority.ts';
import { DAY } from '../../src/pki/durations.ts';
import { generateKeyPair, type KeyAlgorithm, randomSerial } from '../../src/pki/x509/keys.ts';
import type { CertificatePem } from '../../src/pki/x509/pem.ts';
import { withServingCert } from '../../src/pki/serving-certs/secret.ts';
import { issueServingCert } from '../../src/pki/serving-certs/issue.ts';
import { times } from './burst.ts';
import { perSecond, whole } from './table.ts';

const { values: flags } = parseArgs({
  options: { check: { type: 'boolean', default: false }, only: { type: 'string', multiple: true } },
});
const PARTS = {
  leaves: measureLeaves,
  services: measureServices,
  memory: measureMemory,
} satisfies Record<string, () => Promise<readonly Figure[]>>;

const COUNTS: readonly (readonly [KeyAlgorithm, number, number?])[] = [
  ['ECDSA-P256', 2_000, 500],
  ['ECDSA-P384', 500],
  ['RSA-2048', 20],
];

/** From the key pair to the complete Secret, per second of CPU time of all threads. */
async function measureLeaves(): Promise<readonly Figure[]> {
  const now = new Date();
  const authority = await createAuthority({
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now,
  });
  const signer = { authority, bundle: caBundle(authority, now), now };
  for (let index = 0; index < 200; index += 1) await issue('ECDSA-P256', signer); // warm-up: V8 compiles the code
  const figures: Figure[] = [];
  for (const [algorithm, count, floor] of COUNTS) {
    const all = await cpuOf(() => times(count, () => issue(algorithm, signer)));
    const keys = await cpuOf(() => times(count, () => generateKeyPair(algorithm)));
    const rate = perSecond(count, all);
    const target = floor === undefined ? undefined : atLeast(rate, floor, whole);
    figures.push({
      what: `leaves of ${algorithm} in a second of one core (${Math.min(100, Math.round((100 * keys) / all))}% of it for the keys)`,
      measured: rate < 100 ? rate.toFixed(1) : whole(rate),
      ...(target === undefined ? {} : { target }),
    });
  }
  return figures;
}

async function issue(
  algorithm: KeyAlgorithm,
  {
    authority,
    bundle,
    now,
  }: { readonly authority: Authority; readonly bundle: CertificatePem; readonly now: Date },
): Promise<object> {
  const keyPair = await generateKeyPair(algorithm);
  const dnsNames = ['web', 'web.shop', 'web.shop.svc', 'web.shop.svc.cluster.local'];
  const { chain } = await issueServingCert({
    authority,
    dnsNames,
    keyPair,
    serial: randomSerial(),
    now,
    lifetimeMs: 90 * DAY,
  });
  return withServingCert(undefined, {
    service: { namespace: 'shop', name: 'web', uid: 'c0ffee' },
    secretName: 'web-tls',
    chain,
    privateKey: keyPair.privateKey,
    bundle,
  });
}

/** CPU time of this process, in milliseconds. */
async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

await runBenchmark(flags.check, async () => {
  const figures: Figure[] = [];
  for (const [name, measure] of Object.entries(PARTS))
    if (flags.only?.includes(name) ?? true) figures.push(...(await measure()));
  return figures;
});
console.log(WHY_SANDBOX);
